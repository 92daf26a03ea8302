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

// A life that is shown as live under our instance: of this directory, and so dead, or of a copy.
func TestDecisionsAboutALiveNode(t *testing.T) {
	const span = 4 * time.Second
	for name, tt := range map[string]struct {
		live   string
		now    worker.Moment
		change func(r *worker.Record, e *worker.Entry)
		want   worker.Action
	}{
		"nobody":                                  {"", worker.Moment{}, nil, worker.Resume},
		"ourselves":                               {"life 5", worker.Moment{}, nil, worker.Resume},
		"the life before, just seen":              {"life 4", worker.Moment{}, nil, worker.Watch},
		"the life before, nearly long enough":     {"life 4", worker.Moment{Watched: span - 1}, nil, worker.Watch},
		"the life before, which has not reported": {"life 4", worker.Moment{Watched: span}, nil, worker.Resume},
		"a life that we don't know, just seen":    {"?", worker.Moment{}, nil, worker.Watch},
		"a life that we don't know, of long ago":  {"?", worker.Moment{Watched: span}, nil, worker.Resume},
		"our entry was written since":             {"", worker.Moment{Stirred: true}, nil, worker.SetAside},
		"our entry was written, and one is live":  {"life 4", worker.Moment{Stirred: true, Watched: span}, nil, worker.SetAside},
		"our claim was made active since": {"", worker.Moment{Stirred: true}, func(r *worker.Record, _ *worker.Entry) {
			r.State, r.Limit, r.AckedLimit = worker.RecordClaiming, r.Floor, r.Floor
		}, worker.SetAside},
		"our claim, as it was": {"", worker.Moment{}, func(r *worker.Record, _ *worker.Entry) {
			r.State, r.Limit, r.AckedLimit = worker.RecordClaiming, r.Floor, r.Floor
		}, worker.Enroll},
		"on a piece that has ended": {"life 4", worker.Moment{}, func(r *worker.Record, e *worker.Entry) {
			r.AckedLimit, e.Limit = decided, decided
		}, worker.Watch},
		"another's entry in our place":                       {"?", worker.Moment{}, func(_ *worker.Record, e *worker.Entry) { e.Instance, e.Floor = "theirs", e.Floor+1 }, worker.GiveUp},
		"our entry was lost":                                 {"?", worker.Moment{}, func(_ *worker.Record, e *worker.Entry) { e.Floor-- }, worker.Watch},
		"running, the life before":                           {"life 4", worker.Moment{Running: true}, nil, worker.Report},
		"running, a life that we don't know":                 {"?", worker.Moment{Running: true}, nil, worker.Report}, // of long ago, in a registry that was set back
		"running, the same, our entry lost":                  {"?", worker.Moment{Running: true}, func(_ *worker.Record, e *worker.Entry) { e.Floor-- }, worker.PutBack},
		"running, by a record of before our own later piece": {"", worker.Moment{Running: true}, func(_ *worker.Record, e *worker.Entry) { e.Floor++ }, worker.Fence},
		"running out": {"?", worker.Moment{Running: true}, func(r *worker.Record, e *worker.Entry) {
			r.AckedLimit, e.Limit = decided, decided
		}, worker.RunOut},
		"without a worker ID": {"?", worker.Moment{}, func(r *worker.Record, _ *worker.Entry) { r.WorkerID, r.State = worker.NoWorkerID, "" }, worker.Enroll},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := decideOn()
			s.Entry = &worker.Entry{WorkerID: 7, State: worker.StateActive, Instance: "ours", Owner: "life 4", Life: 4, Floor: r.Floor, Limit: r.AckedLimit}
			if r.Acked.Number, s.Entry.Life = 4, 4; tt.change != nil {
				tt.change(&r, s.Entry)
			}
			if r.State == worker.RecordClaiming { // as its own life made it active
				s.Entry.Owner = "life 5"
			}
			s.Live = tt.live
			tt.now.Clock, tt.now.Margin = decided, margin
			require.Equal(t, tt.want, worker.Decide(r, s, tt.now))
		})
	}
}
