package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/exploretest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// deciding returns Decide of what see makes of what there is.
func deciding(see func(r worker.Record, s worker.Snapshot, now worker.Moment, do worker.Action) worker.Action) func(*world) {
	return func(w *world) {
		w.decide = func(r worker.Record, s worker.Snapshot, now worker.Moment) worker.Action {
			return see(r, s, now, worker.Decide(r, s, now))
		}
	}
}

// unasked are the cells of Decide's table that no world asks, each with the reason.
func unasked() map[string]string {
	const (
		claim = "what a claim was acknowledged can't be lost: its row has three columns"
		stops = "worlds with an operator's hand, or with copies, have no stop that releases; one follows on the last report, by what that wrote"
	)
	return map[string]string{
		"none / lost": claim,
		"released in the file, stopping / unknown": stops, "released in the file, stopping / after": stops,
	}
}

// writing has transactions left without some of their conditions.
func writing(without exploretest.Condition) func(*world) {
	return func(w *world) {
		w.split = true // others come between a look and the write
		w.session = func(s zkreg.Session) zkreg.Session { return exploretest.Loosened(s, without) }
	}
}

func floors(lower int64) func(*world) {
	return func(w *world) {
		w.snapshot = func(s *worker.Snapshot) {
			if s.Root != nil && s.Root.Floor > 0 {
				root := *s.Root
				root.Floor = max(1, root.Floor.Add(-time.Duration(lower)*unit))
				s.Root = &root
			}
		}
	}
}

// rules are those that are taken out, with the world in which that is found.
func rules() map[string]struct {
	world string
	out   func(*world)
} {
	return map[string]struct {
		world string
		out   func(*world)
	}{
		"ended-judges-loss": {"unrecovered", deciding(func(r worker.Record, s worker.Snapshot, now worker.Moment, do worker.Action) worker.Action {
			if do == worker.NoteLoss && s.Root != nil && s.Root.Losses >= r.Losses && !r.Reaches(now.Clock, now.Margin) {
				return worker.CellOf(r, s, now).Action()
			}
			return do
		})},
		"root-floor": {"recovered", floors(1 << 12)},
		"loss-raises-floor: beyond the longest lease":                  {"leases", floors(3)},
		"loss-raises-floor: and beyond the margin, or a claim settles": {"recovered", func(w *world) { w.settle = promoted; floors(1)(w) }},
		"loss-noted-first": {"twoUnrecovered", deciding(unnoted)},
		"loss-before-copy: the later floor, not the greater limit": {"leases", func(w *world) { w.releases = true; deciding(greater)(w) }},
		"loss-before-copy":                                    {"recovered", deciding(copyFirst)},
		"loss-before-copy: lives are numbered":                {"disturbed", deciding(unnumbered)},
		"judged-clock":                                        {"parent", func(w *world) { w.jump = 2 }},
		"settles-first: a claim":                              {"unrecovered", func(w *world) { w.settle = promoted }},
		"written-as-decided: under one root":                  {"twoUnrecovered", func(w *world) { w.anyRoot = true }},
		"written-as-decided: over one connection":             {"unrecovered", func(w *world) { w.reconnects = true }},
		"settles-first: an entry that is put back by a start": {"copiesWiped", func(w *world) { w.settle = func(r worker.Record) bool { return r.State != worker.RecordActive } }},
		"right-root":                                          {"roots", func(w *world) { w.anyPlace = true }},
		"made-over":                                           {"forcedAway", unsaid},
		"claim-again":                                         {"unrecoveredLost", deciding(resumed)},
		"release-filed-first":                                 {"whole", func(w *world) { w.entryFirst, w.unavailable = true, true }},
		"one-path: a write is conditional on the entry":       {"whole", writing(exploretest.Version)},
		"root-checked":                                        {"parent", writing(exploretest.Check)},
		"outside: a ZooKeeper set back, and no daemon that knows better": {"unrecovered", func(w *world) { w.included = true }},
	}
}

// resumed is Decide where a claim whose promotion was not answered resumes.
func resumed(r worker.Record, s worker.Snapshot, _ worker.Moment, do worker.Action) worker.Action {
	if do == worker.Enroll && r.State == worker.RecordClaiming && s.Entry != nil && s.Entry.State == worker.StateActive && r.Holds(*s.Entry) {
		return worker.Resume
	}
	return do
}

// unsaid has no claim say what it was made over.
func unsaid(w *world) {
	w.snapshot = func(s *worker.Snapshot) {
		if s.Entry != nil {
			like := *s.Entry
			like.Over = nil
			s.Entry = &like
		}
	}
}

// promoted tells that a claim does not settle.
func promoted(r worker.Record) bool { return r.State == worker.RecordActive }

// unnoted is Decide where one that holds a worker ID puts its entry back, and says nothing.
func unnoted(r worker.Record, s worker.Snapshot, now worker.Moment, do worker.Action) worker.Action {
	if do == worker.NoteLoss && s.Root != nil && s.Root.Losses >= r.Losses && worker.CellOf(r, s, now).Action() == worker.PutBack {
		return worker.PutBack
	}
	return do
}

// greater is Decide where the greater limit stands.
func greater(r worker.Record, s worker.Snapshot, now worker.Moment, do worker.Action) worker.Action {
	if e := s.Entry; e != nil && e.Instance != r.Instance && e.State != worker.StateClaiming && e.Limit > e.Floor {
		like := *e
		like.Floor = min(r.Floor, like.Limit-1)
		if like.Limit > r.Limit {
			like.Floor = r.Floor
		}
		s.Entry = &like
		return worker.Decide(r, s, now)
	}
	return do
}

// copyFirst is Decide where an unknown life makes a copy, regardless of what else is seen.
func copyFirst(r worker.Record, s worker.Snapshot, now worker.Moment, do worker.Action) worker.Action {
	e := s.Entry
	if s.Root == nil || s.Root.Parent != s.Parent || e == nil || e.Instance != r.Instance || r.Knows(e.Owner) || r.State == worker.RecordClaiming {
		return do
	}
	if now.Running {
		return worker.Fence
	}
	return worker.SetAside
}

// unnumbered is Decide where lives have no numbers.
func unnumbered(r worker.Record, s worker.Snapshot, now worker.Moment, do worker.Action) worker.Action {
	if e := s.Entry; e != nil && e.Instance == r.Instance && e.State == worker.StateActive {
		like := *e
		like.Life = r.Acked.Number
		s.Entry = &like
		return worker.Decide(r, s, now)
	}
	return do
}

// Each rule that is taken out is missed.
func TestExploreWithoutARule(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	for name, r := range rules() {
		t.Run(name, func(t *testing.T) {
			w := worlds()[r.world]
			r.out(w)
			require.NotEmpty(t, visit(t, w, exploretest.Bounds{States: 120_000}).Wrong)
		})
	}
}
