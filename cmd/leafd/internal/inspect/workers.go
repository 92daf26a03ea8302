package inspect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// The states of an entry as the commands show them: what the entry says of
// itself, and for an active one whether its daemon is live.
const (
	Live     = "live"
	Active   = "active"
	Stale    = "stale"
	Expired  = "expired"
	Released = "released"
	Claiming = "claiming"
	Java     = "java"
	Damaged  = "damaged"
)

// staleAge is how long an entry is without a report until it is shown as stale.
const staleAge = 24 * time.Hour

// View is an entry as it is now.
type View struct {
	worker.Entry
	Shown string        // Live, or another one of these states
	Age   time.Duration // since the last report; below 0 when that lies ahead of our clock
	// Sample is its clock's; nil when it wasn't asked.
	Sample *clock.Sample
}

// ViewEntry returns e as it is at now, without a sample of its clock.
func ViewEntry(e worker.Entry, now clock.Millis) View {
	return View{Entry: e, Shown: shownState(e, now), Age: now.Sub(e.Timestamp)}
}

func shownState(e worker.Entry, now clock.Millis) string {
	switch {
	case e.State == worker.StateReleased:
		return Released
	case e.State == worker.StateClaiming:
		return Claiming
	case e.State == zkreg.StateJava:
		return Java
	case e.State != worker.StateActive:
		return Damaged
	case e.Live:
		return Live
	case e.Free(now):
		return Expired
	case now.Sub(e.Timestamp) >= staleAge:
		return Stale
	default:
		return Active
	}
}

// ViewEntries returns entries as they are at now, the live ones with a sample of their
// clock where prober isn't nil. All are asked at once.
func ViewEntries(ctx context.Context, entries []worker.Entry, prober clock.Prober, now clock.Millis) []View {
	views := make([]View, len(entries))
	var addresses []string
	var asked []int
	for i, e := range entries {
		views[i] = ViewEntry(e, now)
		if prober != nil && e.Live && e.Address != "" {
			addresses, asked = append(addresses, e.Address), append(asked, i)
		}
	}
	if len(asked) == 0 {
		return views
	}
	for i, sample := range prober.Probe(ctx, addresses) {
		v := &views[asked[i]]
		v.Sample = sampleFor(sample, v.Node)
	}
	return views
}

// sampleFor is sample as one of node's clock: a sample that another daemon gave at its
// address is none. A daemon that starts has no name yet.
func sampleFor(sample clock.Sample, node string) *clock.Sample {
	if sample.Err == nil && sample.Node != "" && sample.Node != node {
		sample.Err = fmt.Errorf("node %q answers there, not %q", sample.Node, node)
	}
	return &sample
}

// List is all entries of a cluster.
type List struct {
	Views   []View // by worker ID
	Now     clock.Millis
	Summary Summary
}

// Summary counts the entries, for people and for programs.
type Summary struct {
	Entries  int   `json:"entries"`
	Live     int   `json:"live"`
	Active   int   `json:"active"`
	Stale    int   `json:"stale"`
	Expired  int   `json:"expired"`
	Released int   `json:"released"`
	Claiming int   `json:"claiming"`
	Java     int   `json:"java"`
	Damaged  int   `json:"damaged"`
	Capacity int64 `json:"capacity"` // worker IDs that the layout has
	Left     int64 `json:"left"`     // worker IDs that new nodes can still get
}

// Entries reads the entries, as a zkreg.Directory does.
type Entries interface {
	Entries(ctx context.Context) ([]worker.Entry, error)
}

// ListWorkers reads the entries. The time is taken after they were read, so
// that no report lies ahead of it.
func ListWorkers(ctx context.Context, dir Entries, prober clock.Prober, layout snowflake.Layout, wall func() clock.Millis) (List, error) {
	entries, err := dir.Entries(ctx)
	if err != nil {
		return List{}, err
	}
	now := wall()
	l := List{Views: ViewEntries(ctx, entries, prober, now), Now: now}
	s := &l.Summary
	s.Entries, s.Capacity = len(entries), layout.MaxWorker()+1
	count := map[string]*int{
		Live: &s.Live, Active: &s.Active, Stale: &s.Stale, Expired: &s.Expired,
		Released: &s.Released, Claiming: &s.Claiming, Java: &s.Java, Damaged: &s.Damaged,
	}
	taken := map[int64]bool{}
	for _, v := range l.Views {
		*count[v.Shown]++
		if !v.Free(now) && v.WorkerID < s.Capacity {
			taken[v.WorkerID] = true
		}
	}
	s.Left = s.Capacity - int64(len(taken))
	return l, nil
}

// Sentence is the summary in one line. States that no entry is in are left out, except
// live.
func (s Summary) Sentence() string {
	text := fmt.Sprintf("%d entries, %d live", s.Entries, s.Live)
	if s.Entries == 1 {
		text = fmt.Sprintf("1 entry, %d live", s.Live)
	}
	for _, part := range []struct {
		n    int
		name string
	}{
		{s.Active, Active},
		{s.Stale, Stale},
		{s.Expired, Expired},
		{s.Released, Released},
		{s.Claiming, Claiming},
		{s.Java, Java},
		{s.Damaged, Damaged},
	} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.name)
		}
	}
	return text + fmt.Sprintf(", %d left of %d", s.Left, s.Capacity)
}

// FindEntry returns the entry of a worker ID, the first where a hand has made a second one.
func FindEntry(entries []worker.Entry, id int64) (worker.Entry, error) {
	i := slices.IndexFunc(entries, func(e worker.Entry) bool { return e.WorkerID == id })
	if i < 0 {
		return worker.Entry{}, Reword(worker.ErrNoEntry, fmt.Sprintf("worker ID %d has no entry; leafd worker list shows all", id))
	}
	return entries[i], nil
}
