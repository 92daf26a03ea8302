package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

const (
	decided = clock.Millis(1_700_000_000_000)
	margin  = 10 * time.Second
	hour    = clock.Millis(3_600_000)
)

// decideOn are the record of an instance with the piece [decided-1h, decided+1h), and what a
// registry shows that has lost its data since the record knew, which was noted.
func decideOn() (worker.Record, worker.Snapshot) {
	r := worker.Record{
		Cluster: "c", Instance: "ours", WorkerID: 7, State: worker.RecordActive, Owner: "life 5",
		Floor: decided - hour, Limit: decided + hour, AckedLimit: decided + hour,
		Acked: worker.Life{Owner: "life 4", Number: 4}, Current: worker.Life{Owner: "life 5", Number: 5}, Losses: 1,
	}
	s := worker.Snapshot{
		Granted: 6 * time.Second, Root: &worker.Root{Cluster: "c", Parent: 3, Losses: 2, LongestSessionMS: 6000}, Parent: 3,
	}
	return r, s
}

// The root comes before the entry: it is made again, its parent is, a loss is noted in it.
func TestDecisionsAboutTheRoot(t *testing.T) {
	newcomer := func(r *worker.Record, _ *worker.Snapshot) {
		*r = worker.Record{WorkerID: worker.NoWorkerID, Instance: "new"}
	}
	for name, tt := range map[string]struct {
		change []func(r *worker.Record, s *worker.Snapshot)
		want   worker.Action
	}{
		"the root is gone":                      {[]func(r *worker.Record, s *worker.Snapshot){func(_ *worker.Record, s *worker.Snapshot) { s.Root = nil }}, worker.MakeRoot},
		"the root is gone, on another ensemble": {[]func(r *worker.Record, s *worker.Snapshot){func(r *worker.Record, s *worker.Snapshot) { s.Root, r.Servers = nil, []string{"b:1"} }}, worker.Refuse},
		"the root is gone, for newcomer":        {[]func(r *worker.Record, s *worker.Snapshot){newcomer, func(_ *worker.Record, s *worker.Snapshot) { s.Root = nil }}, worker.Await},
		"an Init that was cut short": {
			[]func(r *worker.Record, s *worker.Snapshot){newcomer, func(_ *worker.Record, s *worker.Snapshot) { s.Root.Parent, s.Parent, s.Root.Losses = 0, 0, 0 }}, worker.Repair,
		},
		"the same, for who belongs to it": {
			[]func(r *worker.Record, s *worker.Snapshot){func(_ *worker.Record, s *worker.Snapshot) { s.Root.Parent, s.Parent, s.Root.Losses = 0, 0, 0 }}, worker.Repair,
		},
		"an Init that made the parent": {
			[]func(r *worker.Record, s *worker.Snapshot){newcomer, func(_ *worker.Record, s *worker.Snapshot) { s.Root.Parent, s.Root.Losses = 0, 0 }}, worker.Repair,
		},
		"a loss is being repaired": {
			[]func(r *worker.Record, s *worker.Snapshot){newcomer, func(_ *worker.Record, s *worker.Snapshot) { s.Root.Parent, s.Parent = 0, 0 }}, worker.Repair,
		},
		"the parent is gone":                         {[]func(r *worker.Record, s *worker.Snapshot){func(_ *worker.Record, s *worker.Snapshot) { s.Parent = 0 }}, worker.Repair},
		"the parent is another, anybody repairs it":  {[]func(r *worker.Record, s *worker.Snapshot){newcomer, func(_ *worker.Record, s *worker.Snapshot) { s.Parent = 4 }}, worker.Repair},
		"the parent comes before the losses":         {[]func(r *worker.Record, s *worker.Snapshot){func(_ *worker.Record, s *worker.Snapshot) { s.Parent, s.Root.Losses = 4, 0 }}, worker.Repair},
		"the root has forgotten a loss":              {[]func(r *worker.Record, s *worker.Snapshot){func(_ *worker.Record, s *worker.Snapshot) { s.Root.Losses = 0 }}, worker.NoteLoss},
		"a newcomer knows of none":                   {[]func(r *worker.Record, s *worker.Snapshot){newcomer, func(_ *worker.Record, s *worker.Snapshot) { s.Root.Losses = 0 }}, worker.Enroll},
		"nothing of it":                              {nil, worker.Resume},
		"who has no worker ID, but knows the losses": {[]func(r *worker.Record, s *worker.Snapshot){newcomer, func(r *worker.Record, _ *worker.Snapshot) { r.Cluster, r.Losses = "c", 3 }}, worker.NoteLoss},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := decideOn()
			s.Entry = &worker.Entry{WorkerID: 7, State: worker.StateActive, Instance: "ours", Owner: "life 4", Life: 4, Floor: r.Floor, Limit: r.AckedLimit}
			for _, change := range tt.change {
				change(&r, &s)
			}
			got := worker.Decide(r, s, worker.Moment{Clock: decided, Margin: margin, Strange: r.Strange([]string{"a:1"})})
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.want != worker.Resume && tt.want != worker.Enroll && tt.want != worker.Refuse, got.FixesRoot())
			if r.Cluster != "" && s.Root != nil && s.Root.Parent == s.Parent { // for any entry
				s.Entry = nil
				if tt.want == worker.Resume {
					tt.want = worker.PutBack
				}
				require.Equal(t, tt.want, worker.Decide(r, s, worker.Moment{Clock: decided, Margin: margin}))
			}
		})
	}
}
