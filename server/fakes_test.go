package server

import (
	"cmp"
	"context"
	"errors"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
)

// fakeSnowflake counts what is asked of it, and fails when told to.
type fakeSnowflake struct {
	calls atomic.Int64 // IDs asked for
	last  atomic.Int64
	err   atomic.Pointer[error]
	run   int           // the longest range; 0: 4000
	block chan struct{} // NextN waits for it to close, if not nil
	begun chan struct{} // NextN says that it is waiting
}

func (f *fakeSnowflake) fail(err error) { f.err.Store(&err) }

func (f *fakeSnowflake) NextAt(_ context.Context, _ time.Duration, most int) (first int64, n int, err error) {
	f.calls.Add(int64(most))
	if err := f.err.Load(); err != nil {
		return 0, 0, *err
	}
	return f.last.Add(int64(most)) - int64(most) + 1, most, nil
}

func (f *fakeSnowflake) NextN(_ context.Context, dst []int64) error {
	f.calls.Add(int64(len(dst)))
	if f.block != nil {
		f.begun <- struct{}{}
		<-f.block
	}
	if err := f.err.Load(); err != nil {
		return *err
	}
	for i := range dst {
		dst[i] = f.last.Add(1)
	}
	return nil
}

// NextRange ends as where a millisecond has no more.
func (f *fakeSnowflake) NextRange(ctx context.Context, most int) (first int64, n int, err error) {
	n = min(most, cmp.Or(f.run, 4000))
	first, n, err = f.NextAt(ctx, 0, n)
	f.last.Add(1) // the next millisecond
	return first, n, err
}

// table is leaf_alloc and its tags, in memory.
type table struct {
	mu      sync.Mutex
	rows    map[string]segment.Row
	calls   int // IDs asked for
	reloads int
	err     error
}

func newTable(rows ...segment.Row) *table {
	t := &table{rows: make(map[string]segment.Row)}
	for _, r := range rows {
		t.rows[r.Tag] = r
	}
	return t
}

func (t *table) Check(key []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if _, ok := t.rows[string(key)]; !ok {
		return segment.ErrUnknownTag
	}
	return nil
}

func (t *table) Next(ctx context.Context, key []byte) (int64, error) {
	var one [1]int64
	err := t.NextN(ctx, key, one[:])
	return one[0], err
}

func (t *table) Try(key []byte, _ **segment.Tag, most int) (first int64, n int) {
	n = min(most, 3) // as a range that has no more
	var ids [3]int64
	if t.NextN(context.Background(), key, ids[:n]) != nil {
		return 0, 0
	}
	return ids[0], n
}

func (t *table) NextN(_ context.Context, key []byte, dst []int64) error {
	if err := t.Check(key); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls += len(dst)
	r := t.rows[string(key)]
	for i := range dst {
		dst[i] = r.MaxID
		r.MaxID++
	}
	t.rows[r.Tag] = r
	return nil
}

// NextRanges gives two ranges, as where one of the table's ends in between.
func (t *table) NextRanges(ctx context.Context, key []byte, n int, dst []segment.IDRange) ([]segment.IDRange, error) {
	if n == 1 {
		id, err := t.Next(ctx, key)
		return append(dst, segment.IDRange{First: id, Last: id}), err
	}
	if err := t.Check(key); err != nil {
		return dst, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls += n
	r := t.rows[string(key)]
	middle, end := r.MaxID+int64(n/2), r.MaxID+int64(n)
	dst = append(dst, segment.IDRange{First: r.MaxID, Last: middle - 1}, segment.IDRange{First: middle, Last: end - 1})
	r.MaxID = end
	t.rows[r.Tag] = r
	return dst, nil
}

func (t *table) Status() []segment.Status {
	rows, _ := t.List(context.Background())
	var list []segment.Status
	for _, r := range rows {
		list = append(list, segment.Status{Tag: r.Tag, TableStep: r.Step, Step: r.Step, Current: segment.SpanStatus{Lo: r.MaxID, Hi: r.MaxID + r.Step}})
	}
	return list
}

func (t *table) Reload(context.Context, ...string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reloads++
	return t.err
}

func (t *table) List(context.Context) ([]segment.Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return nil, t.err
	}
	var rows []segment.Row
	for _, r := range t.rows {
		rows = append(rows, r)
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].Tag < rows[j].Tag })
	return rows, nil
}

func (t *table) Create(_ context.Context, r segment.Row) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	if _, ok := t.rows[r.Tag]; ok {
		return segment.ErrTagExists
	}
	t.rows[r.Tag] = r
	return nil
}

func (t *table) Update(_ context.Context, tag string, step *int64, description *string) (segment.Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.rows[tag]
	if t.err != nil || !ok {
		return r, cmp.Or(t.err, segment.ErrUnknownTag)
	}
	t.rows[tag] = r.Changed(step, description)
	return r, nil
}

func (t *table) SetMaxID(context.Context, string, int64, func(segment.Row) error) (segment.Row, error) {
	return segment.Row{}, errors.New("no request changes max_id")
}

func (t *table) Delete(_ context.Context, tag string, _ func(segment.Row) error) (segment.Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.rows[tag]
	if t.err != nil || !ok {
		return r, cmp.Or(t.err, segment.ErrUnknownTag)
	}
	delete(t.rows, tag)
	return r, nil
}

// openFence is a ceiling that is never reached.
type openFence struct{}

func (openFence) Ceiling() clock.Millis                     { return 1 << 60 }
func (openFence) Await(context.Context, clock.Millis) error { return nil }
