package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

func testFetchRange(t *testing.T, f *harness) {
	for name, c := range map[string]struct {
		maxID, step, want int64
		lo, hi            int64
	}{
		"want as the step":     {maxID: 1, step: 2000, want: 2000, lo: 1, hi: 2001},
		"want below the step":  {maxID: 1, step: 2000, want: 5, lo: 1, hi: 2001},
		"want above the step":  {maxID: 1, step: 2000, want: 8000, lo: 1, hi: 8001},
		"want nothing":         {maxID: 1, step: 10, want: 0, lo: 1, hi: 11},
		"want less than that":  {maxID: 1, step: 10, want: math.MinInt64, lo: 1, hi: 11},
		"from zero":            {maxID: 0, step: 10, want: 10, lo: 0, hi: 10},
		"a step of one":        {maxID: 7, step: 1, want: 1, lo: 7, hi: 8},
		"beyond 32 bits":       {maxID: 1 << 40, step: 100, want: 1 << 33, lo: 1 << 40, hi: 1<<40 + 1<<33},
		"beyond 53 bits":       {maxID: 1<<60 + 1, step: 2, want: 2, lo: 1<<60 + 1, hi: 1<<60 + 3},
		"the very last range":  {maxID: math.MaxInt64 - 10, step: 10, want: 10, lo: math.MaxInt64 - 10, hi: math.MaxInt64},
		"the very last, asked": {maxID: math.MaxInt64 - 10, step: 1, want: 10, lo: math.MaxInt64 - 10, hi: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			f.add(t, name, c.maxID, c.step)
			require.Equal(t, segment.Range{Lo: c.lo, Hi: c.hi, Step: c.step}, f.fetch(t, name, c.want))
			maxID, step := f.row(t, name)
			require.Equal(t, c.hi, maxID)
			require.Equal(t, c.step, step)
		})
	}
	f.add(t, "twice", 1, 100)
	require.Equal(t, segment.Range{Lo: 1, Hi: 101, Step: 100}, f.fetch(t, "twice", 1))
	require.NoError(t, f.Table.SetStep(patient(t), "twice", 50))
	require.Equal(t, segment.Range{Lo: 101, Hi: 151, Step: 50}, f.fetch(t, "twice", 1))
}

func testFetchRefuses(t *testing.T, f *harness) {
	for name, c := range map[string]struct {
		maxID, step, want, floor int64
		sentinel                 error
	}{
		"step zero":                   {maxID: 1, step: 0, want: 10, sentinel: segment.ErrBadRow},
		"step negative":               {maxID: 1000, step: -5, want: 10, sentinel: segment.ErrBadRow},
		"max_id negative":             {maxID: -1, step: 10, want: 10, sentinel: segment.ErrBadRow},
		"max_id lowest":               {maxID: math.MinInt64, step: 10, want: 10, sentinel: segment.ErrBadRow},
		"max_id negative below floor": {maxID: -1, step: 10, want: 10, floor: 5, sentinel: segment.ErrBadRow},
		"step passes the end":         {maxID: math.MaxInt64 - 9, step: 10, want: 1, sentinel: segment.ErrBadRow},
		"want passes the end":         {maxID: math.MaxInt64 - 9, step: 1, want: 10, sentinel: segment.ErrBadRow},
		"want is the end":             {maxID: 1, step: 1, want: math.MaxInt64, sentinel: segment.ErrBadRow},
		"max_id is the end":           {maxID: math.MaxInt64, step: 1, want: 1, sentinel: segment.ErrBadRow},
		"below the floor by one":      {maxID: 99, step: 10, want: 10, floor: 100, sentinel: segment.ErrRegressed},
		"far below the floor":         {maxID: 1, step: 10, want: 10, floor: math.MaxInt64, sentinel: segment.ErrRegressed},
	} {
		t.Run(name, func(t *testing.T) {
			f.add(t, name, c.maxID, c.step)
			r, err := f.store.Fetch(patient(t), name, c.want, c.floor)
			require.ErrorIs(t, err, c.sentinel)
			require.ErrorContains(t, err, `"`+name+`"`, "the error names the tag")
			require.Zero(t, r)
			maxID, step := f.row(t, name)
			require.Equal(t, c.maxID, maxID, "a refusal consumes nothing")
			require.Equal(t, c.step, step)
		})
	}
	// The store works on: no transaction is left open behind a refusal.
	f.add(t, "sound", 1, 10)
	require.Equal(t, segment.Range{Lo: 1, Hi: 11, Step: 10}, f.fetch(t, "sound", 10))
}

func testFetchRegressed(t *testing.T, f *harness) {
	f.add(t, "it's", 1, 10)
	first := f.fetch(t, "it's", 10)
	require.NoError(t, f.Table.SetMaxID(patient(t), "it's", 3))
	_, err := f.store.Fetch(patient(t), "it's", 10, first.Hi)
	require.ErrorIs(t, err, segment.ErrRegressed)
	require.Regexp(t, `\b3\b`, err.Error(), "what max_id is")
	require.Regexp(t, `\b11\b`, err.Error(), "and what it has to be")
	require.NoError(t, f.Table.SetMaxID(patient(t), "it's", 11))
	r, err := f.store.Fetch(patient(t), "it's", 10, first.Hi)
	require.NoError(t, err, "max_id at the floor is in order")
	require.Equal(t, segment.Range{Lo: 11, Hi: 21, Step: 10}, r)
}

// fetchAbove is a fetch that begins at floor or above.
func (f *harness) fetchAbove(t *testing.T, tag string, want, floor int64) (segment.Range, error) {
	t.Helper()
	return f.store.FetchGuarded(patient(t), tag, want, func(reserve func(int64, bool) (segment.Range, error)) error {
		_, err := reserve(floor, true)
		return err
	})
}

// testFetchGuarded: what was reserved last is taken, and what is refused leaves no transaction
// behind. Of a table that is shared it isn't moved.
func testFetchGuarded(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	r, err := f.store.FetchGuarded(patient(t), "order", 20, func(reserve func(int64, bool) (segment.Range, error)) error {
		for _, c := range [][2]int64{{0, 1}, {1, 1}, {50, 50}, {70, 70}, {60, 70}} {
			r, err := reserve(max(c[0], c[1]), true)
			if err != nil {
				return err
			}
			if r.Lo != c[1] || r.Hi != c[1]+20 {
				return fmt.Errorf("%v at %d", r, c[0])
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, [2]int64{70, 90}, [2]int64{r.Lo, r.Hi})
	maxID, _ := f.row(t, "order")
	require.EqualValues(t, 90, maxID)
	refusal := errors.New("refused")
	_, err = f.store.FetchGuarded(patient(t), "order", 20, func(reserve func(int64, bool) (segment.Range, error)) error {
		_, err := reserve(0, false)
		return errors.Join(err, refusal)
	})
	require.ErrorIs(t, err, refusal)
	require.GreaterOrEqual(t, f.fetch(t, "order", 10).Lo, maxID)
	_, err = f.store.FetchGuarded(patient(t), "order", 20, func(reserve func(int64, bool) (segment.Range, error)) error {
		_, err := reserve(1000, false)
		return err
	})
	require.ErrorIs(t, err, segment.ErrRegressed)
}

func testFetchAbove(t *testing.T, f *harness) {
	for name, c := range map[string]struct {
		maxID, want, floor int64
		lo, hi, skipped    int64
	}{
		"max_id is above": {maxID: 100, want: 20, floor: 99, lo: 100, hi: 120},
		"max_id is it":    {maxID: 100, want: 1, floor: 100, lo: 100, hi: 110},
		"below by one":    {maxID: 99, want: 1, floor: 100, lo: 100, hi: 110, skipped: 1},
		"far below":       {maxID: 0, want: 20, floor: 1 << 60, lo: 1 << 60, hi: 1<<60 + 20, skipped: 1 << 60},
	} {
		t.Run(name, func(t *testing.T) {
			f.add(t, name, c.maxID, 10)
			r, err := f.fetchAbove(t, name, c.want, c.floor)
			require.NoError(t, err)
			require.Equal(t, segment.Range{Lo: c.lo, Hi: c.hi, Step: 10, Skipped: c.skipped}, r)
			maxID, _ := f.row(t, name)
			require.Equal(t, c.hi, maxID)
			next := f.fetch(t, name, 1)
			require.Equal(t, c.hi, next.Lo, "moved for every caller")
		})
	}
	f.add(t, "end", 1, 10)
	_, err := f.fetchAbove(t, "end", 1, math.MaxInt64-9)
	require.ErrorIs(t, err, segment.ErrBadRow)
	f.add(t, "negative", -1, 10)
	_, err = f.fetchAbove(t, "negative", 1, 50)
	require.ErrorIs(t, err, segment.ErrBadRow)
	for tag, was := range map[string]int64{"end": 1, "negative": -1} {
		maxID, _ := f.row(t, tag)
		require.Equal(t, was, maxID, "a refusal moves nothing")
	}
	_, err = f.fetchAbove(t, "unknown", 1, 50)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}

func testFetchUnknown(t *testing.T, f *harness) {
	f.add(t, "known", 1, 10)
	for name, tag := range map[string]string{
		"never was": "unknown", "empty": "", "too long": string(make([]byte, 4*segment.MaxTagBytes)),
		"not UTF-8": "kn\xffown", "a pattern": "%", "SQL": "' OR '1'='1", "beyond latin1": "известный",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.store.Fetch(patient(t), tag, 10, 0)
			require.ErrorIs(t, err, segment.ErrUnknownTag)
		})
	}
	maxID, _ := f.row(t, "known")
	require.EqualValues(t, 1, maxID)
	f.clear(t)
	_, err := f.store.Fetch(patient(t), "known", 10, 0)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}

func testFetchCancelled(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.store.Fetch(ended, "order", 10, 0)
	require.ErrorIs(t, err, context.Canceled)
	maxID, _ := f.row(t, "order")
	require.EqualValues(t, 1, maxID)
	require.Equal(t, segment.Range{Lo: 1, Hi: 11, Step: 10}, f.fetch(t, "order", 10))
}

func testFetchConcurrent(t *testing.T, f *harness) {
	const goroutines, fetches = 16, 50
	f.add(t, "order", 1, 10)
	daemons := []Store{f.store, f.open(t)}
	ranges := collect(t, goroutines, fetches, func(ctx context.Context, g, i int) (segment.Range, error) {
		return daemons[g%len(daemons)].Fetch(ctx, "order", int64(g+i), 0)
	})
	require.Len(t, ranges, goroutines*fetches)
	maxID, _ := f.row(t, "order")
	requireContiguous(t, ranges, 1, maxID)
}

// testFetchRecreated: the row comes and goes while it is being fetched. A fetch
// finds it, or it doesn't, or it is the victim of a deadlock, which databases are
// free to see there; but no range comes twice, and in the end all works.
func testFetchRecreated(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	admin := f.open(t)
	ctx := patient(t)
	until := func(do func() error, done error) {
		for ctx.Err() == nil {
			if err := do(); err == nil || errors.Is(err, done) {
				return
			}
		}
		t.Error("neither done nor refused in time")
	}
	recreated := make(chan struct{})
	go func() {
		defer close(recreated)
		for i := range int64(20) {
			until(func() error { _, err := admin.Delete(ctx, "order", nil); return err }, segment.ErrUnknownTag)
			// Each life of the row has IDs of its own.
			row := segment.Row{Tag: "order", MaxID: (i + 1) << 32, Step: 10}
			until(func() error { return admin.Create(ctx, row) }, segment.ErrTagExists)
		}
	}()
	seen := map[int64]bool{}
	for running := true; running; {
		select {
		case <-recreated:
			running = false
		default:
		}
		r, err := f.store.Fetch(ctx, "order", 10, 0)
		if err != nil {
			continue
		}
		if seen[r.Lo] {
			t.Errorf("range [%d, %d) was given out twice", r.Lo, r.Hi)
		}
		seen[r.Lo] = true
	}
	last := f.fetch(t, "order", 10)
	require.False(t, seen[last.Lo])
	require.GreaterOrEqual(t, last.Lo, int64(20<<32))
}

func testFetchLeavesRest(t *testing.T, f *harness) {
	row := segment.Row{Tag: "order", MaxID: 1, Step: 10, Description: "orders of the shop"}
	require.NoError(t, f.store.Create(patient(t), row))
	f.fetch(t, "order", 1000)
	rows, err := f.store.List(patient(t))
	require.NoError(t, err)
	got := find(t, rows, "order")
	require.EqualValues(t, 1001, got.MaxID)
	require.EqualValues(t, 10, got.Step)
	require.Equal(t, row.Description, got.Description)
}

// collect runs fetch in goroutines at once and returns all ranges.
func collect(
	t *testing.T, goroutines, each int,
	fetch func(ctx context.Context, goroutine, i int) (segment.Range, error),
) []segment.Range {
	t.Helper()
	ctx := patient(t)
	var mu sync.Mutex
	var all []segment.Range // mu protects
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				r, err := fetch(ctx, g, i)
				if err != nil {
					t.Errorf("goroutine %d, fetch %d: %v", g, i, err)
					return
				}
				mu.Lock()
				all = append(all, r)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}
