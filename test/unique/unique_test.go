package unique_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/unique"
)

// oracle does what a Journal does with a map.
type oracle map[int64][]unique.Place

func (o oracle) add(p unique.Place, ids []int64) {
	for _, id := range ids {
		o[id] = append(o[id], p)
	}
}

func (o oracle) report() unique.Report {
	var r unique.Report
	for id, places := range o {
		r.IDs += int64(len(places))
		if len(places) == 1 {
			continue
		}
		r.Repeated++
		r.Surplus += int64(len(places)) - 1
		slices.SortStableFunc(places, func(a, b unique.Place) int { return cmp.Compare(a.At, b.At) })
		r.First = append(r.First, unique.Duplicate{ID: id, Times: int64(len(places)), Places: [2]unique.Place{places[0], places[1]}})
	}
	slices.SortFunc(r.First, func(a, b unique.Duplicate) int { return cmp.Compare(a.ID, b.ID) })
	if len(r.First) > unique.MaxFirst {
		r.First = r.First[:unique.MaxFirst]
	}
	return r
}

func open(t *testing.T, o unique.Options) *unique.Journal {
	t.Helper()
	j, err := unique.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// kinds of IDs: what leafd gives, and what no server gives.
func kinds(r *rand.Rand) map[string]func() int64 {
	var snowflake, segment, falling int64 = 1 << 60, 5, math.MaxInt64
	return map[string]func() int64{
		"snowflake": func() int64 { snowflake += 1 + r.Int64N(5)<<22; return snowflake ^ r.Int64N(3)<<12 },
		"segment":   func() int64 { segment++; return segment - r.Int64N(50) },
		"any":       func() int64 { return int64(r.Uint64()) },
		"few":       func() int64 { return r.Int64N(40) - 20 },
		"ends": func() int64 {
			return []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}[r.IntN(7)]
		},
		"falling": func() int64 { falling -= r.Int64N(3); return falling },
		"one":     func() int64 { return math.MinInt64 },
	}
}

func TestAgainstAMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		for kind, next := range kinds(r) {
			// From everything at once to a few IDs at a time.
			for _, capacity := range []int{0, 1000, 100, 7} {
				t.Run(fmt.Sprintf("%s %d by %d", kind, seed, capacity), func(t *testing.T) {
					o := unique.Small(t.TempDir(), capacity)
					j, want := open(t, o), oracle{}
					lanes := []*unique.Lane{j.Lane(), j.Lane(), j.Lane()}
					var at time.Duration
					for request := range 400 {
						at += time.Duration(1+r.IntN(100)) * time.Microsecond
						p := unique.Place{Client: r.IntN(200), Request: int64(request), At: at}
						ids := make([]int64, r.IntN(8))
						for i := range ids {
							ids[i] = next()
						}
						require.NoError(t, lanes[r.IntN(len(lanes))].Add(p, ids))
						want.add(p, ids)
					}
					got, err := j.Check(t.Context(), nil)
					require.NoError(t, err)
					require.Positive(t, got.Bytes)
					got.Bytes = 0
					require.Equal(t, want.report(), got)
				})
			}
		}
	}
}

func TestLanesAtOnce(t *testing.T) {
	t.Parallel()
	const lanes, each, batch = 8, 300, 1000
	j := open(t, unique.Options{Dir: t.TempDir(), Memory: unique.MinMemory})
	var wg sync.WaitGroup
	for l := range lanes {
		lane := j.Lane()
		wg.Go(func() {
			ids := make([]int64, batch)
			for request := range each {
				for i := range ids {
					ids[i] = int64((request*batch+i)*lanes + l)
				}
				if l == 3 && request == 200 {
					ids[500] = 77
				}
				if err := lane.Add(unique.Place{Client: l, Request: int64(request), At: time.Duration(request) * time.Millisecond}, ids); err != nil {
					t.Errorf("lane %d: %v", l, err)
					return
				}
			}
		})
	}
	wg.Wait()
	stages := map[unique.Stage]int64{}
	got, err := j.Check(t.Context(), func(s unique.Stage, done, total int64) {
		require.GreaterOrEqual(t, done, stages[s])
		require.LessOrEqual(t, done, total)
		require.Equal(t, int64(lanes*each*batch), total)
		stages[s] = done
	})
	require.NoError(t, err)
	require.Equal(t, int64(lanes*each*batch), got.IDs)
	require.Equal(t, int64(1), got.Repeated)
	require.Equal(t, []unique.Duplicate{{ID: 77, Times: 2, Places: [2]unique.Place{
		{Client: 77 % lanes, Request: 0},
		{Client: 3, Request: 200, At: 200 * time.Millisecond},
	}}}, got.First)
	require.Equal(t, got.IDs, stages[unique.StageSort])
	require.Equal(t, got.IDs, stages[unique.StageLocate])
	require.Equal(t, got.IDs, stages[unique.StageCount])
}

func TestBatchLargerThanAChunk(t *testing.T) {
	t.Parallel()
	j, want := open(t, unique.Options{Dir: t.TempDir(), Memory: unique.MinMemory}), oracle{}
	ids := make([]int64, 100_000)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range ids {
		ids[i] = int64(r.Uint64())
	}
	ids[99_999] = ids[0]
	p := unique.Place{Client: 1 << 40, Request: math.MaxInt64, At: math.MaxInt64 / 1000 * 1000}
	require.NoError(t, j.Lane().Add(p, ids))
	want.add(p, ids)
	got, err := j.Check(t.Context(), nil)
	require.NoError(t, err)
	got.Bytes = 0
	require.Equal(t, want.report(), got)
}

func TestNothingAdded(t *testing.T) {
	t.Parallel()
	j := open(t, unique.Options{Dir: t.TempDir(), Memory: unique.MinMemory})
	require.NoError(t, j.Lane().Add(unique.Place{}, nil))
	got, err := j.Check(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, unique.Report{}, got)
}

func TestLifeOfAJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, unique.Options{Dir: dir, Memory: unique.MinMemory})
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, names, "temporary files have no name")
	lane := j.Lane()
	require.NoError(t, lane.Add(unique.Place{}, []int64{1}))
	_, err = j.Check(t.Context(), nil)
	require.NoError(t, err)
	_, err = j.Check(t.Context(), nil)
	require.ErrorIs(t, err, unique.ErrChecked)
	require.ErrorIs(t, lane.Add(unique.Place{}, []int64{1}), unique.ErrChecked)
	require.Nil(t, j.Lane())
	require.NoError(t, j.Close())
	require.NoError(t, j.Close())
}

func TestEndedEarly(t *testing.T) {
	t.Parallel()
	for _, stage := range []unique.Stage{unique.StageCount, unique.StageSort, unique.StageLocate} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			j := open(t, unique.Small(t.TempDir(), 1000))
			lane := j.Lane()
			ids := make([]int64, 100_000)
			for range 3 {
				require.NoError(t, lane.Add(unique.Place{}, ids))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := j.Check(ctx, func(s unique.Stage, _, _ int64) {
				if s == stage {
					cancel()
				}
			})
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	_, err := unique.New(unique.Options{Memory: unique.MinMemory - 1})
	require.ErrorIs(t, err, unique.ErrMemory)
	_, err = unique.New(unique.Options{Memory: unique.MinMemory, Dir: t.TempDir() + "/none"})
	require.ErrorIs(t, err, unique.ErrStorage)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "/none")
}

// BenchmarkCheck adds b.N IDs with one planted duplicate, and finds it:
//
//	go test ./test/unique -run '^$' -bench Check/snowflake -benchtime 1000000000x
func BenchmarkCheck(b *testing.B) {
	for _, bc := range []struct {
		name  string
		batch int
		id    func(i int64) int64
	}{
		// 4000 IDs a millisecond.
		{"snowflake, one an answer", 1, func(i int64) int64 { return (1<<40+i/4000)<<22 | 7<<12 | i%4000 }},
		{"snowflake, 1000 an answer", 1000, func(i int64) int64 { return (1<<40+i/4000)<<22 | 7<<12 | i%4000 }},
		{"any int64, 1000 an answer", 1000, func(i int64) int64 { return int64(uint64(i) * 0x9e3779b97f4a7c15) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			j, err := unique.New(unique.Options{Dir: os.TempDir(), Memory: unique.DefaultMemory})
			require.NoError(b, err)
			defer func() { require.NoError(b, j.Close()) }()
			b.ResetTimer()
			lanes := []*unique.Lane{j.Lane(), j.Lane(), j.Lane(), j.Lane()}
			ids := make([]int64, 0, bc.batch)
			for i, request := int64(0), int64(0); i < int64(b.N); request++ {
				for ids = ids[:0]; len(ids) < bc.batch && i < int64(b.N); i++ {
					ids = append(ids, bc.id(i))
				}
				if i == int64(b.N) {
					ids[len(ids)-1] = bc.id(int64(b.N) / 3)
				}
				client := int(request % 64)
				require.NoError(b, lanes[client%4].Add(unique.Place{Client: client, Request: request / 64, At: time.Duration(i) * 250}, ids))
			}
			added := b.Elapsed()
			report, err := j.Check(b.Context(), nil)
			require.NoError(b, err)
			require.Equal(b, int64(b.N), report.IDs)
			if b.N > 3 {
				require.Equal(b, int64(1), report.Surplus)
				require.Equal(b, bc.id(int64(b.N)/3), report.First[0].ID)
				require.Equal(b, int64(b.N)/3/int64(bc.batch)/64, report.First[0].Places[0].Request)
			}
			b.ReportMetric(float64(added.Nanoseconds())/float64(b.N), "ns-to-add/op")
			b.ReportMetric(float64(report.Bytes)/float64(b.N), "disk-B/op")
		})
	}
}
