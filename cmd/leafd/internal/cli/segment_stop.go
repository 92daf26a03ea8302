package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/pause"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// runsStill is how long after its last report a daemon that is not live is taken
// to run: one with a wrong clock leaves the live set, and goes on serving segments.
const runsStill = time.Minute

// switchFlags are the flags of `segment stop` and `segment start`.
type switchFlags struct {
	via       remote
	urls      []string
	tls       bool
	adminPort int
	timeout   time.Duration
	output    string
}

func (f *switchFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	urlsFlag(fs, &f.urls)
	f.via.tlsFlags(fs)
	fs.StringVar(&f.via.adminToken, "admin-token-file", "", "file with the daemons' admin token")
	registryFlags(cmd, &f.timeout)
	fs.IntVar(&f.adminPort, "admin-port", 0, "with --zk: port of the daemons' --admin-listen; 0: they have none")
	fs.BoolVar(&f.tls, "tls", false, "with --zk: the daemons speak TLS")
	outputFlag(cmd, &f.output, outputText, outputJSON)
}

const switchHelp = `

It is for one daemon, or several: name each by --url (its --admin-listen where it has one),
or all that run of a cluster by --zk. A daemon that doesn't run just now is not reached.
Each is asked once, all at the same time. Exit code 1 when any did not do it.

-o json prints a list with daemon, result and was_stopped, or error.`

func (a *app) segmentStopCmd() *cobra.Command {
	var flags switchFlags
	var body struct {
		Reason  string `json:"reason,omitempty"`
		Unknown bool   `json:"unknown,omitempty"`
	}
	cmd := &cobra.Command{
		Use:   "stop TAG",
		Short: "Stop one tag on running daemons: its requests get 503 tag_stopped",
		Long: `Stop one tag: from the next request on daemons answer it with 503 tag_stopped and the
reason, until leafd segment start, over restarts too. Other tags and snowflake IDs are
served on. Stopping it again changes the reason.` + switchHelp,
		Example: `  leafd segment stop order --reason "client of team A loops" --url http://10.0.0.5:8080 --admin-token-file token
  leafd segment stop order --zk 10.0.0.1:2181 --admin-token-file token`,
		Args: cobra.ExactArgs(1),
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&body.Reason, "reason", "", "why; whoever asks for an ID of the tag is shown it")
	cmd.Flags().BoolVar(&body.Unknown, "unknown", false, "stop it also where no such tag is known, for when it is created")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if why := checkReason(body.Reason); why != "" {
			return settings.Usagef("--reason is %.40q: %s", body.Reason, why)
		}
		return a.switchTag(cmd, &flags, args[0], "stop", body)
	}
	return cmd
}

func (a *app) segmentStartCmd() *cobra.Command {
	var flags switchFlags
	cmd := &cobra.Command{
		Use:     "start TAG",
		Short:   "Let a stopped tag run again on running daemons",
		Long:    `Let a tag that leafd segment stop has stopped run again. One that runs stays as it is.` + switchHelp,
		Example: "  leafd segment start order --zk 10.0.0.1:2181 --admin-token-file token",
		Args:    cobra.ExactArgs(1),
	}
	flags.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.switchTag(cmd, &flags, args[0], "start", nil)
	}
	return cmd
}

func checkReason(reason string) string {
	if !utf8.ValidString(reason) || utf8.RuneCountInString(reason) > pause.MaxReason || strings.ContainsFunc(reason, segment.Hidden) {
		return fmt.Sprintf("want at most %d characters, no control characters", pause.MaxReason)
	}
	return ""
}

// Switched is what one daemon answered.
type Switched struct {
	Daemon string `json:"daemon"`          // its URL, as given or as ZooKeeper has it
	Result string `json:"result"`          // stopped, running or failed
	Was    bool   `json:"was_stopped"`     // before
	Error  string `json:"error,omitempty"` // why it failed
}

// switchTag has what done with tag by every daemon that flags name.
func (a *app) switchTag(cmd *cobra.Command, flags *switchFlags, tag, what string, body any) error {
	if err := checkTag(tag); err != nil {
		return err
	}
	if flags.via.adminToken == "" {
		return settings.Usagef("--admin-token-file is missing: daemons %s tags for the bearer of their admin token only", what)
	}
	daemons, err := a.switchTargets(cmd, flags)
	if err != nil {
		return err
	}
	results := make([]Switched, len(daemons))
	var all sync.WaitGroup
	for i, d := range daemons {
		all.Go(func() { results[i] = d.switchTag(cmd.Context(), tag, what, body) })
	}
	all.Wait()
	failed := 0
	table := [][]string{{"DAEMON", "RESULT"}}
	for _, r := range results {
		table = append(table, []string{r.Daemon, r.words()})
		if r.Error != "" {
			failed++
		}
	}
	if flags.output == outputJSON {
		err = printJSON(a.Stdout, results)
	} else {
		err = printTable(a.Stdout, table)
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("tag %q: %d of %d daemons did not %s it", tag, failed, len(results), what))
	}
	return err
}

func (s Switched) words() string {
	switch {
	case s.Error != "":
		return "failed: " + s.Error
	case s.Result == "stopped" && s.Was:
		return "stopped, as it was before"
	case s.Result == "running" && !s.Was:
		return "running, as it was before"
	}
	return s.Result
}

// switchTag asks one daemon.
func (d *remoteDaemon) switchTag(ctx context.Context, tag, what string, body any) Switched {
	s := Switched{Daemon: d.named, Result: "failed"}
	text, err := d.ask(ctx, http.MethodPost, TagPath(tag, "/"+what), body)
	if err != nil {
		s.Error = oneLine(err.Error())
		return s
	}
	var answer struct {
		Tag     string `json:"tag"`
		Stopped bool   `json:"stopped"`
		Was     bool   `json:"was_stopped"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Tag != tag || answer.Stopped != (what == "stop") {
		s.Error = "the answer is not leafd's, check the URL"
		return s
	}
	s.Result, s.Was = "running", answer.Was
	if answer.Stopped {
		s.Result = "stopped"
	}
	return s
}

// switchTargets returns the daemons that flags name.
func (a *app) switchTargets(cmd *cobra.Command, flags *switchFlags) ([]*remoteDaemon, error) {
	urls := flags.urls
	switch {
	case len(urls) > 0 && cmd.Flags().Changed("zk"):
		return nil, settings.Usagef("--url and --zk exclude each other: name the daemons, or have all of a cluster found")
	case len(urls) > 0 && (flags.adminPort != 0 || flags.tls):
		return nil, settings.Usagef("--admin-port and --tls are for --zk: an --url says both itself")
	case flags.adminPort < 0 || flags.adminPort > 65535:
		return nil, settings.Usagef("--admin-port is %d: want a port", flags.adminPort)
	}
	if len(urls) > 0 {
		if err := checkOutput(flags.output, outputText, outputJSON); err != nil {
			return nil, err
		}
		return flags.via.openAll(urls)
	}
	cfg, err := a.loadCluster(cmd, flags.timeout, flags.output)
	if err != nil {
		return nil, err
	}
	if len(cfg.ZooKeeper.Servers) == 0 {
		return nil, settings.Usagef("want --url, for each daemon, or --zk, for all of a cluster")
	}
	err = a.cluster(cfg, flags.timeout).WithDirectory(cmd.Context(), func(ctx context.Context, dir *zkreg.Directory) error {
		entries, err := dir.Entries(ctx)
		urls = flags.urlsOf(entries, a.wall())
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(urls) == 0 {
		return nil, fmt.Errorf("no daemon runs under %s in ZooKeeper at %s; leafd worker list shows all", cfg.ZooKeeper.Root, strings.Join(cfg.ZooKeeper.Servers, ","))
	}
	return flags.via.openAll(urls)
}

// urlsOf returns where the daemons that run take changes.
func (f *switchFlags) urlsOf(entries []worker.Entry, now clock.Millis) []string {
	scheme := "http://"
	if f.tls {
		scheme = "https://"
	}
	var urls []string
	for _, e := range entries {
		// An entry without an owner is a Java Leaf's, which stops no tag.
		if e.State != worker.StateActive || e.Owner == "" || e.Address == "" || !e.Live && now.Sub(e.Timestamp) > runsStill {
			continue
		}
		address := e.Address
		if host, _, err := net.SplitHostPort(address); err == nil && f.adminPort > 0 {
			address = net.JoinHostPort(host, strconv.Itoa(f.adminPort))
		}
		urls = append(urls, scheme+address)
	}
	return urls
}

// openAll opens each of the daemons.
func (r *remote) openAll(urls []string) ([]*remoteDaemon, error) {
	daemons := make([]*remoteDaemon, len(urls))
	for i, url := range urls {
		one := *r
		one.url = url
		var err error
		if daemons[i], err = one.open(); err != nil {
			return nil, err
		}
	}
	return daemons, nil
}
