package server

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/segment"
)

// fakeSnowflake counts what is asked of it, and fails when told to.
type fakeSnowflake struct {
	calls atomic.Int64 // IDs asked for
	last  atomic.Int64
	err   atomic.Pointer[error]
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
	n = min(most, 4000)
	first, n, err = f.NextAt(ctx, 0, n)
	f.last.Add(1) // the next millisecond
	return first, n, err
}

// table is leaf_alloc and its tags, in memory.
type table struct {
	mu    sync.Mutex
	rows  map[string]segment.Row
	calls int // IDs asked for
	err   error
}

func newTable(rows ...segment.Row) *table {
	t := &table{rows: make(map[string]segment.Row)}
	for _, r := range rows {
		t.rows[r.Tag] = r
	}
	return t
}

// fail has all that is asked of the table fail.
func (t *table) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = err
}

func (t *table) Known(key []byte) bool { return t.Check(context.Background(), key) == nil }

func (t *table) Check(_ context.Context, key []byte) error {
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
	if err := t.Check(context.Background(), key); err != nil {
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
	if err := t.Check(context.Background(), key); err != nil {
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

func (t *table) Used(yield func(segment.Status) bool) {
	rows, _ := t.List()
	for _, r := range rows {
		if !yield(segment.Status{Tag: r.Tag, TableStep: r.Step, Step: r.Step, Current: segment.SpanStatus{Lo: r.MaxID, Hi: r.MaxID + r.Step}}) {
			return
		}
	}
}

// pageTags is segment.Service's Page, of a table's Used.
func pageTags(used iter.Seq[segment.Status], after, part string, limit int) (page []segment.Status, more int) {
	for st := range used {
		switch {
		case st.Tag <= after || !strings.Contains(strings.ToLower(st.Tag), strings.ToLower(part)):
		case len(page) == limit:
			more++
		default:
			page = append(page, st)
		}
	}
	return page, more
}

func (t *table) Page(after, part string, limit int) ([]segment.Status, int) {
	return pageTags(t.Used, after, part, limit)
}

func (t *table) List() ([]segment.Row, error) {
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

// tableAdmin is the table as segment.Admin; Page of Segments is another.
type tableAdmin struct{ *table }

func (t tableAdmin) Page(_ context.Context, after, part string, limit int) (page []segment.Row, err error) {
	rows, err := t.List()
	for _, r := range rows {
		if r.Tag > after && strings.Contains(strings.ToLower(r.Tag), strings.ToLower(part)) && len(page) < limit {
			page = append(page, r)
		}
	}
	return page, err
}

func (t tableAdmin) Get(_ context.Context, tag string) (segment.Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.rows[tag]
	if t.err != nil || !ok {
		return r, cmp.Or(t.err, segment.ErrUnknownTag)
	}
	return r, nil
}

func (t tableAdmin) Create(_ context.Context, r segment.Row, before func() error) error {
	if _, err := t.Get(context.Background(), r.Tag); !errors.Is(err, segment.ErrUnknownTag) {
		return cmp.Or(err, segment.ErrTagExists)
	}
	if err := before(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[r.Tag] = r
	return nil
}

func (t tableAdmin) Update(_ context.Context, tag string, c segment.Change, _ func(segment.Row) error) (segment.Row, error) {
	r, err := t.Get(context.Background(), tag)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.rows[tag] = r.Changed(c)
	}
	return r, err
}

func (t tableAdmin) Delete(_ context.Context, tag string, _ func(segment.Row) error) (segment.Row, error) {
	r, err := t.Get(context.Background(), tag)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.rows, tag)
	}
	return r, err
}
