package checker

import (
	"fmt"
	"strings"
	"time"

	"github.com/leafd/leafd/test/chaos/history"
)

// Rule is what a violation breaks.
type Rule string

// The rules, each checked for every answer of a run.
const (
	Unique   Rule = "no ID twice"
	Count    Rule = "n IDs for n"
	Growing  Rule = "growing"
	Owned    Rule = "the worker of the daemon that answered"
	Alone    Rule = "one process at a time has a worker"
	Timed    Rule = "times within the daemon's clock"
	Refused  Rule = "no ID in a refusal"
	WellMade Rule = "answers have the documented form"
	Live     Rule = "serving again after a fault"
	Shut     Rule = "no new worker ID after a loss"
)

// Violation is the first thing that was wrong: a finding that is an error too.
//
//nolint:errname // it is what the checker looks for, not a failure of it
type Violation struct {
	Rule Rule
	Text string
	At   int64            // nanoseconds since the run began
	IDs  []int64          // that were seen twice
	By   []history.Record // the answers that break the rule, where they are known at once
	// Stream is that of the IDs.
	Stream string
}

// Error implements error.
func (v *Violation) Error() string {
	return fmt.Sprintf("violation of %q at %s: %s", v.Rule, since(v.At), v.Text)
}

// Explain reads the history at path for all that has to do with v: the answers
// with its IDs, the lives of their processes, and the faults before.
func (v *Violation) Explain(path string) (string, error) {
	var out strings.Builder
	fmt.Fprintln(&out, v.Error())
	processes := map[int]bool{}
	for i := range v.By {
		fmt.Fprintln(&out, "  "+Describe(&v.By[i]))
		processes[v.By[i].Process] = true
	}
	var sightings, events []string
	err := history.Read(path, func(r *history.Record) error {
		switch {
		case r.Kind == history.KindRequest:
			for _, id := range v.IDs {
				if r.Served() && r.Stream == v.Stream && holds(r, id) {
					sightings = append(sightings, fmt.Sprintf("%d: %s", id, Describe(r)))
					processes[r.Process] = true
				}
			}
		case r.At <= v.At:
			events = append(events, Describe(r))
		}
		return nil
	})
	if len(sightings) > 0 {
		fmt.Fprintln(&out, "every answer with these IDs:")
		for _, s := range sightings {
			fmt.Fprintln(&out, "  "+s)
		}
	}
	fmt.Fprintln(&out, "what happened before:")
	for _, e := range events[max(0, len(events)-explained):] {
		fmt.Fprintln(&out, "  "+e)
	}
	return out.String(), err
}

// explained is how many events are shown.
const explained = 60

func holds(r *history.Record, id int64) bool {
	for _, run := range r.IDs {
		if run.Lo <= id && id <= run.Last() {
			return true
		}
	}
	return false
}

// since is a time of a history for people.
func since(ns int64) string { return time.Duration(ns).Round(time.Millisecond).String() }

// Describe is r in a line for people.
func Describe(r *history.Record) string {
	at := since(r.At)
	switch r.Kind {
	case history.KindLife:
		return fmt.Sprintf("%s process %d of %s started", at, r.Process, r.Daemon)
	case history.KindEnd:
		return fmt.Sprintf("%s process %d of %s ended: %s", at, r.Process, r.Daemon, r.Text)
	case history.KindWorker:
		return fmt.Sprintf("%s process %d of %s is worker %d in the life %s", at, r.Process, r.Daemon, r.Worker, r.Owner)
	case history.KindDisplaced:
		return fmt.Sprintf("%s process %d of %s was displaced", at, r.Process, r.Daemon)
	case history.KindClock:
		return fmt.Sprintf("%s clock of host %d from %+.3f s to %+.3f s", at, r.Host, time.Duration(r.From).Seconds(), time.Duration(r.To).Seconds())
	case history.KindBegin:
		return fmt.Sprintf("%s fault %d: %s on %v", at, r.Fault, r.Text, r.Targets)
	case history.KindEnded:
		return fmt.Sprintf("%s fault %d is over", at, r.Fault)
	case history.KindRequest:
		return fmt.Sprintf("%s..%s process %d, connection %d, %s, %d asked: %d %s %s", at, since(r.Until()), r.Process, r.Conn, r.Stream, r.Asked, r.Status, r.Code, runs(r.IDs))
	default:
		return at + " " + string(r.Kind) + " " + r.Text
	}
}

func runs(list []history.Run) string {
	var parts []string
	for _, r := range list {
		parts = append(parts, fmt.Sprintf("%d..%d", r.Lo, r.Last()))
	}
	const most = 4
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("and %d runs more", len(list)-most))
	}
	return strings.Join(parts, " ")
}
