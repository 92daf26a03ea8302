package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

func (a *app) workerListCmd() *cobra.Command {
	var output string
	var states []string
	var noSkew bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the worker IDs, who has them, and when they last reported",
		Long: `List the worker IDs, by number: who has each, its state (leafd worker --help has them all),
when it last reported, its ceiling, and how far the clock of each live daemon is ahead of
this machine's. Times are UTC.

How many are left counts the released ones and the numbers without an entry.

-o json prints {"workers":[...],"summary":{...}}. The fields of a worker are
` + workerFields + `.
Those of the summary: entries, live, active, stale, released, claiming, damaged, capacity,
left; they count all entries, whatever --state shows.`,
		Example: "  leafd worker list --zk 10.0.0.1:2181\n  leafd worker list --state stale,released -o json",
		Args:    cobra.NoArgs,
	}
	registryFlags(cmd, &timeout)
	cmd.Flags().StringSliceVar(&states, "state", nil, "only entries in these states: "+strings.Join(shownStates(), ", "))
	cmd.Flags().BoolVar(&noSkew, "no-skew", false, "don't ask the live daemons for their clocks")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkStates(states); err != nil {
			return err
		}
		return a.onCluster(cmd, timeout, output, func(ctx context.Context, dir worker.Directory, cfg Config) error {
			var asker worker.Asker
			if !noSkew {
				var err error
				if asker, err = a.asker(cfg); err != nil {
					return err
				}
			}
			list, err := listWorkers(ctx, dir, asker, cfg.Layout, a.wall)
			if err != nil {
				return err
			}
			if output == outputJSON {
				return printJSON(a.Stdout, list.json(states))
			}
			a.warn(list.unanswered(states))
			return list.print(a.Stdout, states, cfg)
		})
	}
	return cmd
}

func checkStates(states []string) error {
	for _, s := range states {
		if known := shownStates(); !slices.Contains(known, s) {
			return usagef("--state is %q%s: want %s", s, hint(s, known, ""), either(known))
		}
	}
	return nil
}

// workerList is all entries of a cluster.
type workerList struct {
	views   []workerView // by worker ID
	now     clock.Millis
	summary workerSummary
}

// workerSummary counts the entries, for people and for programs.
type workerSummary struct {
	Entries  int   `json:"entries"`
	Live     int   `json:"live"`
	Active   int   `json:"active"`
	Stale    int   `json:"stale"`
	Released int   `json:"released"`
	Claiming int   `json:"claiming"`
	Damaged  int   `json:"damaged"`
	Capacity int64 `json:"capacity"` // worker IDs that the layout has
	Left     int64 `json:"left"`     // worker IDs that new nodes can still get
}

// listWorkers reads the entries. The time is taken after they were read: a
// report of this very moment is no report from the future.
func listWorkers(ctx context.Context, dir worker.Directory, asker worker.Asker, layout snowflake.Layout, wall func() clock.Millis) (workerList, error) {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return workerList{}, err
	}
	now := wall()
	l := workerList{views: viewEntries(ctx, entries, asker, now), now: now}
	s := &l.summary
	s.Entries, s.Capacity = len(entries), layout.MaxWorker()+1
	count := map[string]*int{
		shownLive: &s.Live, shownActive: &s.Active, shownStale: &s.Stale,
		shownReleased: &s.Released, shownClaiming: &s.Claiming, shownDamaged: &s.Damaged,
	}
	taken := map[int64]bool{}
	for _, v := range l.views {
		*count[v.shown]++
		if v.shown != shownReleased && v.WorkerID < s.Capacity {
			taken[v.WorkerID] = true
		}
	}
	s.Left = s.Capacity - int64(len(taken))
	return l, nil
}

// only returns the entries in states; all when there are none.
func (l workerList) only(states []string) []workerView {
	if len(states) == 0 {
		return l.views
	}
	return slices.DeleteFunc(slices.Clone(l.views), func(v workerView) bool { return !slices.Contains(states, v.shown) })
}

// jsonWorkerList is the list for programs.
type jsonWorkerList struct {
	Workers []jsonWorker  `json:"workers"`
	Summary workerSummary `json:"summary"`
}

func (l workerList) json(states []string) jsonWorkerList {
	j := jsonWorkerList{Workers: []jsonWorker{}, Summary: l.summary}
	for _, v := range l.only(states) {
		j.Workers = append(j.Workers, v.json())
	}
	return j
}

// mostUnanswered bounds the warnings of a list: with the network down, nobody
// answers.
const mostUnanswered = 5

// unanswered says of the daemons listed why they gave no clock.
func (l workerList) unanswered(states []string) []string {
	var warnings []string
	more := 0
	for _, v := range l.only(states) {
		switch {
		case v.sample == nil || v.sample.Err == nil:
		case len(warnings) == mostUnanswered:
			more++
		default:
			warnings = append(warnings, fmt.Sprintf("worker %d gave no clock: %s: %s", v.WorkerID, v.Address, oneLine(v.sample.Err.Error())))
		}
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("nor did %d more", more))
	}
	return warnings
}

func (l workerList) print(w io.Writer, states []string, cfg Config) error {
	if len(l.views) == 0 {
		_, err := fmt.Fprintf(w, "No worker ID is given out under %s at %s yet: %d are left.\n", entriesPath(cfg), strings.Join(cfg.ZK, ","), l.summary.Left)
		return printed(err)
	}
	views := l.only(states)
	if len(views) > 0 {
		table := [][]string{{"ID", "NODE", "ADDRESS", "STATE", "LAST REPORT", "AGE", "CEILING", "SKEW"}}
		for _, v := range views {
			table = append(table, []string{
				decimal(v.WorkerID), v.Node, v.Address, v.shown, at(v.Timestamp), relative(v.Timestamp, l.now), at(v.Ceiling), v.skew(),
			})
		}
		if err := printTable(w, table); err != nil {
			return err
		}
	}
	shown := ""
	if len(states) > 0 {
		shown = fmt.Sprintf("%d shown of ", len(views))
	}
	_, err := fmt.Fprintf(w, "%s%s\n", shown, l.summary.sentence())
	return printed(err)
}

// sentence is the summary in one line; what there is none of is left out, but
// for the live.
func (s workerSummary) sentence() string {
	text := fmt.Sprintf("%d entries, %d live", s.Entries, s.Live)
	if s.Entries == 1 {
		text = fmt.Sprintf("1 entry, %d live", s.Live)
	}
	for _, part := range []struct {
		n    int
		name string
	}{
		{s.Active, shownActive},
		{s.Stale, shownStale},
		{s.Released, shownReleased},
		{s.Claiming, shownClaiming},
		{s.Damaged, shownDamaged},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.name)
		}
	}
	return text + fmt.Sprintf(", %d left of %d", s.Left, s.Capacity)
}

// entriesPath is where the registry keeps its entries, for messages.
func entriesPath(cfg Config) string {
	if cfg.ZKForeverPath != "" {
		return cfg.ZKForeverPath
	}
	return cfg.ZKRoot
}
