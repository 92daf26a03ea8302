package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

func (a *app) clockCheckCmd() *cobra.Command {
	var output, peers string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Ask the live daemons for their clocks, and say whether a daemon would start with this one",
		Long: `Ask every live daemon of the cluster, or those of --peers, for its clock, and compare this
machine's with them as a daemon that starts here would: their offsets, the estimate of
--clock-estimator, and the verdict against --clock-threshold. A positive offset is a clock
ahead of this machine's. With a record in --data-dir, that is compared too: no daemon starts
with a clock behind the time that it recorded. Its own daemon is not asked.

Exit codes: 0 the clock is fine, or nobody answered (a warning says so); 3 it would be
refused; 1 ZooKeeper gave no answer, and there is no --peers.

-o json prints one object: verdict (fine, unknown or refused), offset_ms (the estimate; none
without an answer), threshold_ms, estimator, asked, answered, peers with address, node,
worker_id, offset_ms, rtt_ms or error, and record with node, worker_id, timestamp, ceiling
(milliseconds since 1970), behind_ms (how far the clock is behind the timestamp) and wait_ms
(how long a start would wait for the ceiling).`,
		Example: "  leafd clock check --zk 10.0.0.1:2181 --data-dir /var/lib/leafd\n  leafd clock check --peers 10.0.0.5:8080,10.0.0.6:8080",
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout, "data-dir", "clock-threshold", "clock-estimator")
	cmd.Flags().StringVar(&peers, "peers", "", "daemons to ask instead of those in ZooKeeper, host:port[,host:port]")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := a.loadCluster(cmd, timeout, output)
		if err != nil {
			return err
		}
		named, why := parseServers(peers)
		if why != "" {
			return usagef("--peers: %s", why)
		}
		if len(named) == 0 && len(cfg.ZK) == 0 {
			return usagef("nobody to ask: give --peers host:port[,host:port], or --zk host:port[,host:port]")
		}
		check := clockCheck{threshold: cfg.ClockThreshold, estimator: cfg.ClockEstimator}
		if check.record, err = localRecord(cfg.DataDir); err != nil {
			return err
		}
		if check.peers, err = a.peersToAsk(cmd.Context(), cfg, timeout, named, check.record); err != nil {
			return err
		}
		asker, err := a.asker(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		check.ask(ctx, asker, a.wall)
		if output == outputJSON {
			err = printJSON(a.Stdout, check.json())
		} else {
			a.warn(check.warnings())
			err = check.print(a.Stdout)
		}
		return errors.Join(err, check.refusal())
	}
	return cmd
}

// localRecord returns the record in dir, nil when there is none.
func localRecord(dir string) (*worker.Record, error) {
	record, err := cache.Peek(dir)
	switch {
	case errors.Is(err, worker.ErrNoRecord):
		return nil, nil //nolint:nilnil // none is no error here: --data-dir has a default
	case err != nil:
		return nil, err
	}
	return &record, nil
}

// checkedPeer is a daemon whose clock is asked for.
type checkedPeer struct {
	address  string
	node     string // as ZooKeeper has it; "" for one of --peers
	workerID int64  // worker.NoWorkerID for one of --peers
	sample   clock.Sample
}

// peersToAsk returns the daemons named, else the live ones in ZooKeeper but the
// record's own, which would always agree with itself.
func (a *app) peersToAsk(ctx context.Context, cfg Config, timeout time.Duration, named []string, own *worker.Record) ([]checkedPeer, error) {
	var peers []checkedPeer
	if len(named) > 0 {
		for i, address := range named {
			if !slices.Contains(named[:i], address) {
				peers = append(peers, checkedPeer{address: address, workerID: worker.NoWorkerID})
			}
		}
		return peers, nil
	}
	err := a.withDirectory(ctx, cfg, timeout, func(ctx context.Context, dir worker.Directory) error {
		entries, err := dir.Entries(ctx)
		for _, e := range entries {
			if e.Live && e.Address != "" && (own == nil || e.Node != own.Node) {
				peers = append(peers, checkedPeer{address: e.Address, node: e.Node, workerID: e.WorkerID})
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w; --peers host:port asks daemons without ZooKeeper", err)
	}
	return peers, nil
}

// clockCheck is one comparison of this machine's clock.
type clockCheck struct {
	threshold time.Duration
	estimator clock.Estimator
	peers     []checkedPeer
	record    *worker.Record // nil: none
	verdict   clock.Verdict
	now       clock.Millis
}

// ask asks the peers, and estimates what their clocks say together.
func (c *clockCheck) ask(ctx context.Context, asker worker.Asker, wall func() clock.Millis) {
	addresses := make([]string, len(c.peers))
	for i, p := range c.peers {
		addresses[i] = p.address
	}
	samples := make([]clock.Sample, 0, len(c.peers))
	if len(addresses) > 0 {
		samples = asker.Ask(ctx, addresses)
	}
	for i := range samples {
		if p := &c.peers[i]; p.node != "" {
			samples[i] = *theirs(samples[i], p.node)
		}
		c.peers[i].sample = samples[i]
	}
	c.verdict = clock.Estimate(samples, c.estimator)
	c.now = wall()
}

// behind is how far the clock is behind what the local record has, or 0.
func (c *clockCheck) behind() time.Duration {
	if c.record == nil {
		return 0
	}
	return max(0, c.record.Timestamp.Sub(c.now))
}

// wait is how long a start would wait for the recorded ceiling to pass.
func (c *clockCheck) wait() time.Duration {
	if c.record == nil {
		return 0
	}
	return max(0, c.record.Ceiling.Sub(c.now))
}

// refusal is the error with which a daemon would refuse to start, and nil when
// it would start.
func (c *clockCheck) refusal() error {
	var why []string
	if c.verdict.Beyond(c.threshold) {
		why = append(why, fmt.Sprintf("it is %s its peers' (%s of %d), and the threshold is %s: mend the clock (NTP)",
			apart(-c.verdict.Offset), c.estimator, c.verdict.Answered, short(c.threshold)))
	}
	if d := c.behind(); d > 0 {
		why = append(why, fmt.Sprintf("it is %s behind the %s that worker %d recorded: mend the clock (NTP), or wait until it has caught up",
			d, c.record.Timestamp, c.record.WorkerID))
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", worker.ErrClockRefused, strings.Join(why, "; and "))
}

// warnings tells what was not compared.
func (c *clockCheck) warnings() []string {
	switch {
	case len(c.peers) == 0:
		return []string{"no other daemon is live: there is no clock to compare with"}
	case c.verdict.Answered == 0:
		return []string{fmt.Sprintf("none of the %d peers told its clock: nothing was compared", len(c.peers))}
	}
	return nil
}
