package storetest

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

func testRange(t *testing.T, f *harness) {
	for name, c := range map[string]struct{ maxID, step, want, lo, hi int64 }{
		"want as the step":    {maxID: 1, step: 2000, want: 2000, lo: 1, hi: 2001},
		"want above the step": {maxID: 1, step: 2000, want: 8000, lo: 1, hi: 8001},
		"from zero":           {maxID: 0, step: 10, want: math.MinInt64, lo: 0, hi: 10},
		"beyond 53 bits":      {maxID: 1<<60 + 1, step: 2, want: 2, lo: 1<<60 + 1, hi: 1<<60 + 3},
		"the very last range": {maxID: math.MaxInt64 - 10, step: 10, want: 10, lo: math.MaxInt64 - 10, hi: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			f.add(t, name, c.maxID, c.step)
			require.Equal(t, segment.Range{Lo: c.lo, Hi: c.hi}, f.fetch(t, name, c.want))
			maxID, step := f.row(t, name)
			require.Equal(t, []int64{c.hi, c.step}, []int64{maxID, step})
		})
	}
	step := int64(50)
	require.NoError(t, f.update(t, "want as the step", segment.Change{Step: &step}))
	require.Equal(t, segment.Range{Lo: 2001, Hi: 2051}, f.fetch(t, "want as the step", 1))
	for name, c := range map[string]segment.Row{
		"step zero":           {MaxID: 1, Step: 0},
		"max_id lowest":       {MaxID: math.MinInt64, Step: 10},
		"step passes the end": {MaxID: math.MaxInt64 - 9, Step: 10},
	} {
		f.add(t, name, c.MaxID, c.Step)
		_, err := Fetch(patient(t), f.store, name, 1, 0)
		require.ErrorIs(t, err, segment.ErrBadRow)
		maxID, step := f.row(t, name)
		require.Equal(t, []int64{c.MaxID, c.Step}, []int64{maxID, step}, "a refusal consumes nothing")
	}
}

// maxIDs returns the rows' max_id by their tags.
func maxIDs(rows []segment.Row) map[string]int64 {
	by := map[string]int64{}
	for _, row := range rows {
		by[row.Tag] = row.MaxID
	}
	return by
}

func testBatch(t *testing.T, f *harness) {
	ctx := patient(t)
	all := map[string]int64{}
	var tags []string
	for i := range int64(64) {
		tag := "tag-" + strconv.FormatInt(63-i, 10)
		f.add(t, tag, i*100+1, i+1)
		tags, all[tag] = append(tags, tag), i*100+1
	}
	for round := range int64(2) {
		tx := f.begin(t, f.store, append(tags, "tag-3", "no such tag", "no 📦 either", "nor \xff this")...)
		require.Equal(t, all, maxIDs(tx.Rows()), "each once")
		for _, tag := range tx.Skipped() {
			require.NotContains(t, all, tag)
		}
		var moves []segment.Move
		for tag, maxID := range all {
			moves = append(moves, segment.Move{Tag: tag, From: maxID, To: maxID + maxID + round})
		}
		require.NoError(t, tx.Move(ctx, moves))
		for i, m := range moves { // a high mark was above
			moves[i] = segment.Move{Tag: m.Tag, From: m.To, To: m.To + 7}
			if round == 0 {
				all[m.Tag] = m.To + 7
			}
		}
		require.NoError(t, tx.Move(ctx, moves))
		if round == 0 {
			require.NoError(t, tx.Commit(ctx))
		}
		tx.Rollback(ctx)
		tx.Rollback(ctx)
	}
	rows, err := f.store.Find(ctx, tags)
	require.NoError(t, err)
	require.Equal(t, all, maxIDs(rows))
}

// testMoveIsConditional: one row of a batch is not where it was read, or is no more.
func testMoveIsConditional(t *testing.T, f *harness) {
	ctx := patient(t)
	f.add(t, "a", 10, 10)
	f.add(t, "b", 10, 10)
	for name, moves := range map[string][]segment.Move{
		"one":         {{Tag: "a", From: 11, To: 20}},
		"first":       {{Tag: "a", From: 9, To: 20}, {Tag: "b", From: 10, To: 20}},
		"second":      {{Tag: "a", From: 10, To: 20}, {Tag: "b", From: 20, To: 30}},
		"not there":   {{Tag: "a", From: 10, To: 20}, {Tag: "c", From: 10, To: 20}},
		"of another":  {{Tag: "A", From: 10, To: 20}},
		"with a tail": {{Tag: "a ", From: 10, To: 20}, {Tag: "b", From: 10, To: 20}},
	} {
		tx := f.begin(t, f.store, "a", "b")
		require.Error(t, tx.Move(ctx, moves), name)
		tx.Rollback(ctx)
		rows, err := f.store.Find(ctx, []string{"a", "b"})
		require.NoError(t, err)
		require.Equal(t, map[string]int64{"a": 10, "b": 10}, maxIDs(rows), name)
	}
	require.Equal(t, segment.Range{Lo: 10, Hi: 20}, f.fetch(t, "a", 1), "no transaction was left open")
}

// testHeld: another transaction holds a row, or has the whole store to itself. That row isn't given, and was nothing to wait
// for longer than a lock is waited for.
func testHeld(t *testing.T, f *harness) {
	f.add(t, "free", 1, 10)
	f.add(t, "held", 1, 10)
	other := f.open(t)
	tx := f.begin(t, other, "held")
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	batch, err := f.store.Begin(short, []string{"held", "free", "unknown"})
	if err == nil {
		if len(batch.Rows()) > 0 {
			require.Equal(t, map[string]int64{"free": 1}, maxIDs(batch.Rows()))
		}
		require.Contains(t, batch.Skipped(), "held")
		batch.Rollback(short)
	} else {
		require.True(t, errors.Is(err, segment.ErrLocked) || errors.Is(err, context.DeadlineExceeded), "%v", err)
	}
	short, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = f.store.Begin(short, []string{"held"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, segment.ErrStore)

	fetched := make(chan segment.Range)
	go func() {
		r, err := FetchPatiently(patient(t), f.store, "held", 10, 0)
		if err != nil {
			t.Errorf("fetch that waits for the row: %v", err)
		}
		fetched <- r
	}()
	require.NoError(t, tx.Move(patient(t), []segment.Move{{Tag: "held", From: 1, To: 50}}))
	require.NoError(t, tx.Commit(patient(t)))
	require.Equal(t, segment.Range{Lo: 50, Hi: 60}, <-fetched)
}

func testUnknown(t *testing.T, f *harness) {
	f.add(t, "known", 1, 10)
	for name, tag := range map[string]string{
		"never was": "unknown", "empty": "", "too long": string(make([]byte, 4*segment.MaxTagBytes)),
		"not UTF-8": "kn\xffown", "a pattern": "%", "SQL": "' OR '1'='1", "beyond latin1": "известный", "beyond three bytes": "📦",
	} {
		t.Run(name, func(t *testing.T) {
			tx := f.begin(t, f.store, tag)
			require.Empty(t, tx.Rows())
			require.Empty(t, tx.Skipped(), "of one tag no row is no row")
			tx.Rollback(patient(t))
			rows, err := f.store.Find(patient(t), []string{tag})
			require.NoError(t, err)
			require.Empty(t, rows)
			require.ErrorIs(t, f.remove(t, tag), segment.ErrUnknownTag)
			require.ErrorIs(t, f.update(t, tag, segment.Change{}), segment.ErrUnknownTag)
		})
	}
	require.NoError(t, f.Table.Clear(patient(t)))
	_, err := Fetch(patient(t), f.store, "known", 10, 0)
	require.ErrorIs(t, err, segment.ErrUnknownTag)
}

// testFind: no name that is invented keeps another from being found.
func testFind(t *testing.T, f *harness) {
	want := map[string]int64{}
	tags := []string{"📦", "注文", "\xff", "", "'; --", `\`, "Tag-1", "tag-1 ", strings.Repeat("x", 5*segment.MaxTagBytes)}
	for i := range int64(240) {
		tag := "tag-" + strconv.FormatInt(i, 10)
		f.add(t, tag, i, 10)
		want[tag] = i
		tags = append(tags, tag)
	}
	f.add(t, "not asked for", 1, 1)
	rows, err := f.store.Find(patient(t), tags)
	require.NoError(t, err)
	require.Len(t, rows, len(want))
	require.Equal(t, want, maxIDs(rows))
	require.Empty(t, rows[0].Description)
	require.EqualValues(t, 10, rows[0].Step)
	rows, err = f.store.Find(patient(t), nil)
	require.NoError(t, err)
	require.Empty(t, rows)
}

func testCancelled(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.store.Begin(ended, []string{"order"})
	require.ErrorIs(t, err, context.Canceled)
	_, err = f.store.Find(ended, []string{"order"})
	require.ErrorIs(t, err, context.Canceled)
	tx := f.begin(t, f.store, "order")
	require.ErrorIs(t, tx.Move(ended, []segment.Move{{Tag: "order", From: 1, To: 11}}), context.Canceled)
	tx.Rollback(patient(t))
	require.Equal(t, segment.Range{Lo: 1, Hi: 11}, f.fetch(t, "order", 10))
}

func testClosed(t *testing.T, f *harness) {
	f.add(t, "order", 1, 10)
	store := f.Open(t)
	store.Warm()
	_, err := Fetch(patient(t), store, "order", 10, 0)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	_, err = store.Begin(patient(t), []string{"order"})
	require.Error(t, err)
	_, err = store.Find(patient(t), []string{"order"})
	require.Error(t, err)
	require.EqualValues(t, 11, f.fetch(t, "order", 10).Lo)
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
