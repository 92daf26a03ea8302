package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

func (a *app) workerShowCmd() *cobra.Command {
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "show ID|NODE",
		Short: "Show one worker ID: who has it, its clock, and whether it can be released",
		Long: `Show all that ZooKeeper knows of one worker ID, named by its number or by its node, and
the clock of its daemon if that is live. Times are UTC.

-o json prints one object with the fields
` + workerFields + `,
and releasable_from: when leafd worker release takes it without --force, in milliseconds
since 1970; not there while it is live.`,
		Example: "  leafd worker show 7\n  leafd worker show 10.0.0.5:8080",
		Args:    cobra.ExactArgs(1),
	}
	registryFlags(cmd, &timeout)
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.onCluster(cmd, timeout, output, func(ctx context.Context, dir worker.Directory, cfg Config) error {
			entries, err := dir.Entries(ctx)
			if err != nil {
				return err
			}
			e, err := findEntry(entries, args[0])
			if err != nil {
				return err
			}
			asker, err := a.asker(cfg)
			if err != nil {
				return err
			}
			now := a.wall()
			v := viewEntries(ctx, []worker.Entry{e}, asker, now)[0]
			if output == outputJSON {
				return printJSON(a.Stdout, v.detail())
			}
			return printWorker(a.Stdout, v, now)
		})
	}
	return cmd
}

// jsonDetail is one entry for programs.
type jsonDetail struct {
	jsonWorker
	ReleasableFrom *clock.Millis `json:"releasable_from,omitempty"`
}

func (v workerView) detail() jsonDetail {
	d := jsonDetail{jsonWorker: v.json()}
	if from := releasableFrom(v.Entry); !v.Live && v.shown != shownReleased {
		d.ReleasableFrom = &from
	}
	return d
}

// releasableFrom is when an entry that isn't live may be released without force.
func releasableFrom(e worker.Entry) clock.Millis { return e.Timestamp.Add(worker.ReleaseAge) }

// exactly is a time to the millisecond, and how far that is from now.
func exactly(t, now clock.Millis) string {
	if t <= 0 {
		return "never"
	}
	return fmt.Sprintf("%s (%s)", t, relative(t, now))
}

func printWorker(w io.Writer, v workerView, now clock.Millis) error {
	return printTable(w, append([][]string{{"FIELD", "VALUE"}}, workerRows(v, now)...))
}

func workerRows(v workerView, now clock.Millis) [][]string {
	rows := [][]string{
		{"worker ID", decimal(v.WorkerID)},
		{"node", v.Node},
		{"address", orDash(v.Address)},
		{"state", v.shown + ": " + meaning(v)},
		{"last report", exactly(v.Timestamp, now)},
		{"ceiling", exactly(v.Ceiling, now)},
		{"owner", owner(v.Entry)},
		{"reclaim after", reclaim(v.ReclaimAfter)},
		{"release", releaseWords(v, now)},
	}
	switch {
	case v.sample == nil:
	case v.sample.Err != nil:
		rows = append(rows, []string{"clock", "no answer: " + v.sample.Err.Error()})
	default:
		rows = append(rows, []string{"clock", fmt.Sprintf("%s this machine's, round trip %s", apart(v.sample.Offset), v.sample.RTT.Round(100*time.Microsecond))})
	}
	return rows
}

func meaning(v workerView) string {
	switch v.shown {
	case shownLive:
		return "its daemon runs and issues IDs"
	case shownActive:
		if v.Owner == "" {
			return "a Java Leaf's; it runs as long as it reports"
		}
		return "its daemon doesn't issue just now"
	case shownStale:
		return "not reported for 24 hours"
	case shownReleased:
		return "the next new node takes it over"
	case shownClaiming:
		return "a first start is under way, or was cut short"
	default:
		return "what stands in ZooKeeper can't be read"
	}
}

func releaseWords(v workerView, now clock.Millis) string {
	from := releasableFrom(v.Entry)
	switch {
	case v.shown == shownReleased:
		return "done"
	case v.Live:
		return "not while it is live"
	case v.Timestamp > 0 && from > now:
		return fmt.Sprintf("from %s on (%s)", from, relative(from, now))
	default:
		return fmt.Sprintf("possible: leafd worker release %d", v.WorkerID)
	}
}

func owner(e worker.Entry) string {
	if e.Owner == "" && e.State == worker.StateActive {
		return "none: the Java Leaf wrote it"
	}
	return orDash(e.Owner)
}

func reclaim(after time.Duration) string {
	if after == 0 {
		return "never"
	}
	return short(after) + " without a report"
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
