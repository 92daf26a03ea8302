package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// Worker is an entry as it is now.
type Worker = views.WorkerInfo

// AskOffsets sets how far the clocks of the live workers are ahead, and returns what each said. All are
// asked at once.
func AskOffsets(ctx context.Context, prober clock.Prober, workers []Worker) []clock.Sample {
	addresses := make([]string, len(workers)) // none, which isn't asked, of one that isn't live
	for i, w := range workers {
		if w.State == views.WorkerLive {
			addresses[i] = w.Address
		}
	}
	samples := prober.Probe(ctx, addresses)
	for i := range samples {
		if w := &workers[i]; addresses[i] != "" {
			w.Node = cmp.Or(w.Node, samples[i].Node)
			samples[i] = views.SampleOf(samples[i], w.Node)
			samples[i].Node = w.Node
			w.SetOffset(samples[i])
		}
	}
	return samples
}

// liveWorkers returns the live workers that tell an address, by worker ID.
func liveWorkers(ctx context.Context, dir Directory) ([]Worker, error) {
	entries, err := dir.Entries(ctx)
	var live []Worker
	for _, e := range entries {
		if w := views.InfoOf(e, 0); w.State == views.WorkerLive && w.Address != "" {
			live = append(live, w)
		}
	}
	return live, err
}

// List is all entries of a cluster, by worker ID.
type List struct {
	AsOf    clock.Millis `json:"as_of"` // when they were read
	Workers []Worker     `json:"workers"`
	Summary Summary      `json:"summary"`
}

// Summary counts the entries.
type Summary struct {
	Entries  int   `json:"entries"`
	Live     int   `json:"live"`
	NotLive  int   `json:"not_live"`
	Released int   `json:"released"`
	Settling int   `json:"settling"`
	Foreign  int   `json:"foreign"`
	Damaged  int   `json:"damaged"`
	Capacity int64 `json:"capacity"` // worker IDs that the layout has
	Free     int64 `json:"free"`     // worker IDs that new nodes can get now
	// ClosedUntil is the root's floor while that lies ahead: nothing is free before.
	ClosedUntil clock.Millis `json:"closed_until,omitempty"`
	NoRoot      bool         `json:"no_root,omitempty"` // nothing is at the root: nothing is free without one
}

// Directory reads a cluster, as a zkreg.Directory does.
type Directory interface {
	Look(ctx context.Context, r worker.Record) (worker.Snapshot, error)
	Entries(ctx context.Context) ([]worker.Entry, error)
}

// ListWorkers returns the entries as they are now. The time is taken after they were read, so that no
// report lies ahead of it. It returns the registry's error.
func ListWorkers(ctx context.Context, dir Directory, layout snowflake.Layout, wall func() clock.Millis) (List, error) {
	found, err := dir.Look(ctx, worker.Record{WorkerID: worker.NoWorkerID})
	if err != nil {
		return List{}, err
	}
	entries, err := dir.Entries(ctx)
	if err != nil {
		return List{}, err
	}
	floor := clock.Millis(0) // no worker ID is given out before it
	if found.Root != nil {
		floor = found.Root.Floor
	}
	l := List{AsOf: wall(), Workers: make([]Worker, 0, len(entries))}
	s := &l.Summary
	s.Entries, s.Capacity = len(entries), layout.MaxWorker()+1
	count := map[string]*int{
		views.WorkerLive: &s.Live, views.WorkerNotLive: &s.NotLive, views.WorkerReleased: &s.Released,
		views.WorkerSettling: &s.Settling, views.WorkerForeign: &s.Foreign, views.WorkerDamaged: &s.Damaged,
	}
	taken := map[int64]bool{}
	for _, e := range entries {
		w := views.InfoOf(e, l.AsOf)
		if w.FreeFrom != nil && floor > l.AsOf {
			*w.FreeFrom = max(*w.FreeFrom, floor)
		}
		*count[w.State]++
		if !w.Free(l.AsOf) && w.ID < s.Capacity {
			taken[w.ID] = true
		}
		l.Workers = append(l.Workers, w)
	}
	s.Free = s.Capacity - int64(len(taken))
	if floor > l.AsOf {
		s.ClosedUntil, s.Free = floor, 0
	}
	if found.Root == nil {
		s.NoRoot, s.Free = true, 0
	}
	return l, nil
}

// Sentence returns the summary in one line. States that no entry is in are left out, except
// live.
func (s Summary) Sentence() string {
	text := fmt.Sprintf("%d entries, %d live", s.Entries, s.Live)
	if s.Entries == 1 {
		text = fmt.Sprintf("1 entry, %d live", s.Live)
	}
	for _, part := range []struct {
		n    int
		name string
	}{{s.NotLive, "not live"}, {s.Released, views.WorkerReleased}, {s.Settling, views.WorkerSettling}, {s.Foreign, views.WorkerForeign}, {s.Damaged, views.WorkerDamaged}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.name)
		}
	}
	switch {
	case s.NoRoot:
		return text + ", none free: nothing is at the root"
	case s.ClosedUntil > 0:
		return text + fmt.Sprintf(", 0 free until %s: ZooKeeper has lost data; leafd cluster open ends that", s.ClosedUntil.Time().Format("2006-01-02 15:04:05"))
	}
	return text + fmt.Sprintf(", %d free of %d", s.Free, s.Capacity)
}

// Find returns the entry of the worker ID that text is, the first where a second one was made by hand.
// It returns a usage error for text that is no number, and worker.ErrNoEntry if there is none.
func (l List) Find(text string) (Worker, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return Worker{}, settings.Usagef("worker ID is %q: want a number; leafd worker list shows all", text)
	}
	i := slices.IndexFunc(l.Workers, func(w Worker) bool { return w.ID == id })
	if i < 0 {
		return Worker{}, Reword(worker.ErrNoEntry, fmt.Sprintf("worker ID %d has no entry; leafd worker list shows all", id))
	}
	return l.Workers[i], nil
}
