package worker_test

import (
	"slices"
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

// Where the record stands: a row of the table.
var decideRows = []struct {
	name    string
	running bool
	change  func(r *worker.Record)
}{
	{"reaches, running", true, func(*worker.Record) {}},
	{"released in the file, stopping", true, func(r *worker.Record) { r.State, r.Limit = worker.RecordReleasing, decided-hour/2 }},
	{"reaches, starting", false, func(*worker.Record) {}},
	{"ended or nearly, running", true, func(r *worker.Record) { r.Limit, r.AckedLimit = decided.Add(margin), decided.Add(margin) }},
	{"ended or nearly", false, func(r *worker.Record) { r.Limit, r.AckedLimit = decided.Add(margin), decided.Add(margin) }},
	{"released", false, func(r *worker.Record) {
		r.State, r.Limit, r.AckedLimit = worker.RecordReleased, decided-hour/2, decided-hour/2
	}},
	{"released in the file only", false, func(r *worker.Record) { r.State, r.Limit = worker.RecordReleasing, decided-hour/2 }},
	{"a claim", false, func(r *worker.Record) {
		r.State, r.Limit, r.AckedLimit = worker.RecordClaiming, r.Floor, r.Floor
	}},
	{"none", false, func(r *worker.Record) {
		r.State, r.WorkerID, r.Floor, r.Limit, r.AckedLimit = "", worker.NoWorkerID, 0, 0, 0
	}},
}

// What the entry is to the record, in the columns' order: each with the entries that lead there.
// own is the entry as the registry acknowledged it, or as the release left it.
var decideColumns = []struct {
	name    string
	entries map[string]func(own worker.Entry) *worker.Entry
}{
	{"lost", map[string]func(own worker.Entry) *worker.Entry{
		"absent":                     func(worker.Entry) *worker.Entry { return nil },
		"our own, an earlier floor":  func(e worker.Entry) *worker.Entry { e.Floor--; return &e },
		"our own, of an older piece": func(e worker.Entry) *worker.Entry { e.Floor--; e.Limit += hour; e.Life += 9; return &e },
	}},
	{"own", map[string]func(own worker.Entry) *worker.Entry{
		"as acknowledged":         func(e worker.Entry) *worker.Entry { return &e },
		"as the current life may": func(e worker.Entry) *worker.Entry { e.Owner, e.Life, e.Limit = "life 5", 5, e.Limit+hour; return &e },
		"a lease ahead":           func(e worker.Entry) *worker.Entry { e.Owner, e.Life, e.Limit = "life 5", 5, decided+2*hour; return &e },
		"on a later piece of our own": func(e worker.Entry) *worker.Entry {
			e.Owner, e.Life, e.Floor, e.Limit = "life 5", 5, e.Limit, e.Limit+hour
			return &e
		},
	}},
	{"unknown", map[string]func(own worker.Entry) *worker.Entry{
		"a lower life number, a later limit": func(e worker.Entry) *worker.Entry { e.Owner, e.Life, e.Limit = "?", 3, e.Limit+1; return &e },
		"the same life number":               func(e worker.Entry) *worker.Entry { e.Owner, e.Life = "?", 5; return &e },
		"a higher life number":               func(e worker.Entry) *worker.Entry { e.Owner, e.Life = "?", 6; return &e },
		"a later floor":                      func(e worker.Entry) *worker.Entry { e.Owner, e.Floor, e.Life = "?", e.Floor+1, 1; return &e },
	}},
	{"empty", map[string]func(own worker.Entry) *worker.Entry{
		"a claim":             func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateClaiming, e.Floor+1, e.Floor+1) },
		"a claim before ours": func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateClaiming, e.Floor-1, e.Floor-1) },
		"a claim over ours of before": func(e worker.Entry) *worker.Entry {
			return over(e, worker.Over{Instance: "ours", Floor: e.Floor - 1, Limit: e.Limit + hour, Life: 9, State: worker.StateActive})
		},
		"a claim over another's of before": func(e worker.Entry) *worker.Entry {
			return over(e, worker.Over{Instance: "third", Floor: e.Floor - 1, Limit: e.Floor, State: worker.StateReleased})
		},
		"active, limit = floor": func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateActive, e.Floor+1, e.Floor+1) },
		"released, limit = floor": func(e worker.Entry) *worker.Entry {
			return theirs(e, worker.StateReleased, e.Floor+1, e.Floor+1)
		},
	}},
	{"before", map[string]func(own worker.Entry) *worker.Entry{
		"an earlier floor, a later limit": func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateActive, e.Floor-1, e.Limit+hour) },
		"our floor, an earlier limit":     func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateActive, e.Floor, e.Floor+1) },
		"released":                        func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateReleased, e.Floor-1, e.Floor) },
	}},
	{"damaged", map[string]func(own worker.Entry) *worker.Entry{
		"edited by hand": func(worker.Entry) *worker.Entry {
			return &worker.Entry{WorkerID: 7, State: worker.StateDamaged, Stat: worker.Stat{Czxid: 1}}
		},
	}},
	{"after", map[string]func(own worker.Entry) *worker.Entry{
		"a later floor, an earlier limit": func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateActive, e.Floor+1, e.Floor+2) },
		"our floor, our limit":            func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateActive, e.Floor, e.Limit+2*hour) },
		"a claim from our limit on": func(e worker.Entry) *worker.Entry {
			return theirs(e, worker.StateClaiming, decided+2*hour, decided+2*hour)
		},
		"released": func(e worker.Entry) *worker.Entry { return theirs(e, worker.StateReleased, e.Floor+1, e.Floor+2) },
		"a claim over ours, released by force": func(e worker.Entry) *worker.Entry {
			return over(e, worker.Over{Instance: "ours", Floor: e.Floor, Limit: e.Floor + 1, State: worker.StateReleased})
		},
		"a claim over another's of after ours": func(e worker.Entry) *worker.Entry {
			return over(e, worker.Over{Instance: "third", Floor: e.Floor, Limit: e.Limit + 2*hour, State: worker.StateActive})
		},
	}},
}

// theirs is another's entry in the place of e.
func theirs(e worker.Entry, state worker.EntryState, floor, limit clock.Millis) *worker.Entry {
	return &worker.Entry{WorkerID: e.WorkerID, State: state, Instance: "theirs", Owner: "theirs", Life: 1, Floor: floor, Limit: limit}
}

// over is another's claim within our piece, made over that.
func over(e worker.Entry, o worker.Over) *worker.Entry {
	claim := theirs(e, worker.StateClaiming, e.Floor+1, e.Floor+1)
	claim.Over = &o
	return claim
}

// DESIGN's table, as it stands there.
var decideTable = [][]worker.Action{
	// absent or older, own, unknown, empty, before, damaged, after
	{worker.PutBack, worker.Report, worker.Fence, worker.PutBack, worker.PutBack, worker.PutBack, worker.Fence},
	{worker.RunOut, worker.Release, worker.Fence, worker.RunOut, worker.RunOut, worker.RunOut, worker.Fence},
	{worker.PutBack, worker.Resume, worker.SetAside, worker.PutBack, worker.PutBack, worker.PutBack, worker.GiveUp},
	{worker.RunOut, worker.RunOut, worker.Fence, worker.RunOut, worker.RunOut, worker.RunOut, worker.Fence},
	{worker.Forget, worker.Enroll, worker.SetAside, worker.Forget, worker.Forget, worker.Forget, worker.GiveUp},
	{worker.Forget, worker.Enroll, worker.SetAside, worker.Forget, worker.Forget, worker.Forget, worker.Enroll},
	{worker.Forget, worker.Release, worker.SetAside, worker.Forget, worker.Forget, worker.Forget, worker.Enroll},
	{worker.Enroll, worker.Enroll, worker.SetAside, worker.Enroll, worker.Enroll, worker.Enroll, worker.Enroll},
	{worker.Enroll, worker.Enroll, worker.SetAside, worker.Enroll, worker.Enroll, worker.Enroll, worker.Enroll},
}

// released-never-resumes, claim-again, set-aside-always, late-release, loss-before-copy, ended-judges-loss,
// loss-noted-first, damaged-put-back, made-over: every cell.
func TestDecisions(t *testing.T) {
	for i, row := range decideRows {
		for j, column := range decideColumns {
			for name, entry := range column.entries {
				t.Run(row.name+"/"+column.name+"/"+name, func(t *testing.T) {
					r, s := decideOn()
					row.change(&r)
					own := worker.Entry{
						WorkerID: 7, State: worker.StateActive, Instance: "ours", Owner: "life 4", Life: 4, Floor: r.Floor, Limit: r.AckedLimit,
					}
					if r.State == worker.RecordReleased {
						own.State = worker.StateReleased
					}
					s.Entry = entry(own)
					want := decideTable[i][j]
					if row.running && column.name == "own" && s.Entry.Floor > r.Floor { // the record is of before that piece
						want = worker.Fence
					}
					now := worker.Moment{Clock: decided, Margin: margin, Running: row.running}
					require.Equal(t, want, worker.Decide(r, s, now), "%+v", s.Entry)

					// A loss that was not noted since is noted first: by every record that was ever acknowledged.
					s.Root.Losses = r.Losses
					if lost := column.name == "lost" || column.name == "empty" || column.name == "before"; lost && i < 7 {
						want = worker.NoteLoss
					}
					require.Equal(t, want, worker.Decide(r, s, now), "the loss is not noted")
				})
			}
		}
	}
}

// As loss-before-copy has it: our own entry that lies before what was acknowledged, in the order
// of floor, limit and life number, is a loss; not before, and of a life that we don't know, a copy.
func TestOwnEntryIsOlder(t *testing.T) {
	for name, tt := range map[string]struct {
		record func(r *worker.Record)
		entry  worker.Entry
		want   worker.Action
	}{
		"an earlier limit":                        {nil, worker.Entry{Floor: decided - hour, Limit: decided + hour - 1, Life: 9, Owner: "?"}, worker.PutBack},
		"the same limit, a lower life":            {nil, worker.Entry{Floor: decided - hour, Limit: decided + hour, Life: 3, Owner: "?"}, worker.PutBack},
		"the same limit, the acknowledged number": {nil, worker.Entry{Floor: decided - hour, Limit: decided + hour, Life: 4, Owner: "?"}, worker.SetAside},
		"a claim on our floor":                    {nil, worker.Entry{State: worker.StateClaiming, Floor: decided - hour, Limit: decided - hour, Life: 5, Owner: "life 5"}, worker.PutBack},
		"released by an operator, at our floor":   {nil, worker.Entry{State: worker.StateReleased, Floor: decided - hour, Limit: decided - hour + 1, Life: 4, Owner: "life 4"}, worker.GiveUp},
		"released, at an earlier floor":           {nil, worker.Entry{State: worker.StateReleased, Floor: decided - 2*hour, Limit: decided + 2*hour, Life: 4, Owner: "life 4"}, worker.PutBack},
		"released by a life that we don't know":   {nil, worker.Entry{State: worker.StateReleased, Floor: decided - hour, Limit: decided, Life: 5, Owner: "?"}, worker.SetAside},
		"active, and we had released it": {
			func(r *worker.Record) {
				r.State, r.Limit, r.AckedLimit = worker.RecordReleased, decided-hour/2, decided-hour/2
			},
			worker.Entry{Floor: decided - hour, Limit: decided + hour, Life: 4, Owner: "life 4"},
			worker.Forget,
		},
		"released, and we had filed that": {
			func(r *worker.Record) { r.State, r.Limit = worker.RecordReleasing, decided-hour/2 },
			worker.Entry{State: worker.StateReleased, Floor: decided - hour, Limit: decided - hour/2, Life: 4, Owner: "life 4"},
			worker.Enroll,
		},
		"released in the file, and claimed again": {
			func(r *worker.Record) { r.State, r.Limit = worker.RecordReleasing, decided-hour/2 },
			worker.Entry{State: worker.StateClaiming, Floor: decided - hour/2, Limit: decided - hour/2, Life: 5, Owner: "life 5"},
			worker.Enroll,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := decideOn()
			if tt.record != nil {
				tt.record(&r)
			}
			e := tt.entry
			e.WorkerID, e.Instance = 7, "ours"
			if e.State == "" {
				e.State = worker.StateActive
			}
			s.Entry = &e
			require.Equal(t, tt.want, worker.Decide(r, s, worker.Moment{Clock: decided, Margin: margin}))
		})
	}
	// What the operator's force means to a life that issues, and to one after the end of its piece.
	r, s := decideOn()
	s.Entry = &worker.Entry{WorkerID: 7, Instance: "ours", State: worker.StateReleased, Floor: decided - hour, Limit: decided, Life: 5, Owner: "life 5"}
	require.Equal(t, worker.Fence, worker.Decide(r, s, worker.Moment{Clock: decided, Margin: margin, Running: true}))
	r.AckedLimit = decided
	require.Equal(t, worker.Fence, worker.Decide(r, s, worker.Moment{Clock: decided, Margin: margin, Running: true}))
	require.Equal(t, worker.Enroll, worker.Decide(r, s, worker.Moment{Clock: decided, Margin: margin}))
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

// settles-first: an instance that would issue, or claim, by a longer session than the root knows
// first raises the root's; nothing changes for others.
func TestLongerSessionIsRaisedFirst(t *testing.T) {
	for i, row := range decideRows {
		for j, column := range decideColumns {
			for name, entry := range column.entries {
				r, s := decideOn()
				row.change(&r)
				s.Entry = entry(worker.Entry{WorkerID: 7, State: worker.StateActive, Instance: "ours", Owner: "life 4", Life: 4, Floor: r.Floor, Limit: r.AckedLimit})
				now := worker.Moment{Clock: decided, Margin: margin, Running: row.running}
				before := worker.Decide(r, s, now)
				s.Granted = s.Root.LongestSession() + 1
				want := before
				if slices.Contains([]worker.Action{worker.Report, worker.Resume, worker.PutBack, worker.Enroll}, before) {
					want = worker.RaiseSession
				}
				require.Equal(t, want, worker.Decide(r, s, now), "row %d, column %d, %s", i, j, name)
			}
		}
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
