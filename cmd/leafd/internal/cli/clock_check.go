package cli

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) clockCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "clock",
		Short: "Compare this machine's clock with those of the daemons",
	}, a.clockCheckCmd())
}

func (a *app) clockCheckCmd() *cobra.Command {
	var peers string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Ask the live daemons for their clocks, and say whether a daemon would start with this one",
		Long: `Ask every live daemon of the cluster, or those of --peers, for its clock, and compare this
machine's with them as a daemon that starts here would: their offsets, the estimate of
--clock-estimator, and the verdict against --clock-threshold. A positive offset is a clock
ahead of this machine's. With a record in --data-dir, that is compared too: no daemon starts
with a clock behind the time that it recorded. Its own daemon is not asked. Where one single
peer answers and has another time, nothing tells which of the two is wrong: a new daemon is
refused, one with a record of the cluster starts with an alarm.

Exit codes: 0 the clock is fine, or no peer answered, or no majority says which clocks are wrong
(a warning says so); 3 it would be refused; 1 ZooKeeper gave no answer, and there is no --peers.

-o json prints one object: verdict (fine, undecided, unknown or refused), offset_ms (the
estimate; none without an answer), threshold_ms, estimator, asked, answered, and peers with
address, node, worker_id, offset_ms and rtt_ms, or error.`,
		Example: "  leafd clock check --zk 10.0.0.1:2181 --data-dir /var/lib/leafd\n  leafd clock check --peers 10.0.0.5:8080,10.0.0.6:8080",
	}
	cmd.Flags().StringVar(&peers, "peers", "", "daemons to ask instead of those in ZooKeeper, host:port[,host:port]")
	return a.registryCommand(cmd, func(ctx context.Context, cfg settings.Config, _ []string) error {
		named, err := settings.ParseServers(peers)
		if err != nil {
			return settings.Usagef("--peers: %w", err)
		}
		if len(named) == 0 && len(cfg.ZooKeeper.Servers) == 0 {
			return settings.Usagef("no peer to ask: give --peers host:port[,host:port], or --zk host:port[,host:port]")
		}
		record, err := inspect.LocalRecord(cfg.DataDir)
		if err != nil {
			return err
		}
		check, err := a.cluster(cfg, a.timeout).CheckClock(ctx, named, record)
		if err != nil {
			return err
		}
		if check.Warning != "" {
			a.warn([]string{check.Warning})
		}
		err = a.show(check, func(w io.Writer) error {
			var peers, said error
			if check.Asked > 0 {
				peers = columns(check.Peers)(w)
			}
			if check.Answered > 0 {
				said = sentence("This clock is %s.", check.Said)(w)
			}
			return cmp.Or(peers, said, sentence("Verdict: %s.", check.Verdict)(w))
		})
		return errors.Join(err, check.Refusal)
	}, "data-dir", "clock-threshold", "clock-estimator")
}
