package limits

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const start = 1000 * time.Hour // as a machine's monotonic clock may stand

func TestRateAndBurst(t *testing.T) {
	r := NewRates()
	l := NewLimit(10, 5)
	now := start
	take := func(n int) (time.Duration, bool) { return r.Charge([]byte("order"), n, now, l) }
	for range 5 {
		_, ok := take(1)
		require.True(t, ok)
	}
	for range 3 { // refusals charge nothing
		wait, ok := take(1)
		require.False(t, ok)
		require.Equal(t, 100*time.Millisecond, wait)
	}
	now += 100*time.Millisecond - 1
	wait, ok := take(1)
	require.False(t, ok)
	require.EqualValues(t, 1, wait)
	now++
	_, ok = take(1)
	require.True(t, ok)
	wait, ok = take(3)
	require.False(t, ok)
	require.Equal(t, 300*time.Millisecond, wait)
	now += time.Hour // no more than a burst is saved up
	_, ok = take(5)
	require.True(t, ok)
	_, ok = take(1)
	require.False(t, ok)
	_, ok = r.Charge([]byte("other"), 5, now, l)
	require.True(t, ok, "each key has its own")
}

func TestLimitIsClamped(t *testing.T) {
	require.False(t, Limit{}.On())
	require.Equal(t, NewLimit(1, 1), NewLimit(-5, 0))
	require.Equal(t, NewLimit(MaxRate, MaxBurst), NewLimit(MaxRate+1, MaxBurst+1))
	r := NewRates()
	_, ok := r.Charge([]byte("k"), 1_000_000, 18*365*24*time.Hour-time.Hour*24*365, NewLimit(1, MaxBurst))
	require.True(t, ok, "17 years after the start of the machine")
}

// For any requests, what passes in any span of time is bounded.
func TestRateHoldsInEverySpanOfTime(t *testing.T) {
	type taken struct {
		at time.Duration
		n  int
	}
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rate, burst := 1+rng.IntN([]int{1000, MaxRate}[seed%2]), 1+rng.IntN(100)
		largest := 1 + rng.IntN(burst)
		r, l := NewRates(), NewLimit(rate, burst)
		now := start
		var list []taken
		for range 1000 {
			now += time.Duration(rng.ExpFloat64() * float64(time.Second) / float64(rate) * float64(largest) / 3)
			n := 1 + rng.IntN(largest)
			wait, ok := r.Charge([]byte("k"), n, now, l)
			if ok {
				list = append(list, taken{now, n})
				continue
			}
			require.Positive(t, wait)
			if rng.IntN(3) == 0 {
				now += wait
				_, ok := r.Charge([]byte("k"), n, now, l)
				require.True(t, ok, "seed %d: refused after the wait that it was told", seed)
				list = append(list, taken{now, n})
			}
		}
		for i := range list {
			sum := 0
			for _, later := range list[i:min(len(list), i+300)] {
				sum += later.n
				most := float64(rate)*(later.at-list[i].at).Seconds() + float64(burst) + 1e-6 + float64(rate)*1e-9
				if float64(sum) > most {
					require.FailNow(t, "too many", "seed %d: %d of %f at %d a second, %d at once", seed, sum, most, rate, burst)
				}
			}
		}
	}
}

// With many at once not one passes too many, and not one too few.
func TestRatesUnderConcurrency(t *testing.T) {
	const keys, clients, each = 16, 8, 500
	r, l := NewRates(), NewLimit(1, each)
	var passed [keys]atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range keys * each {
				k := i % keys
				if _, ok := r.Charge(fmt.Appendf(nil, "key-%d", k), 1, start, l); ok {
					passed[k].Add(1)
				}
			}
		})
	}
	wg.Wait()
	for k := range passed {
		require.EqualValues(t, each, passed[k].Load())
	}
	require.Zero(t, r.Forgot())
}

// Invented keys don't grow the table, and don't free a key that is over its limit.
func TestInventedKeys(t *testing.T) {
	const capacity = 128 * ways
	r, l := newRates(128), NewLimit(1, 10)
	hog := []byte("hog")
	_, ok := r.Charge(hog, 10, start, l)
	require.True(t, ok)
	var wg sync.WaitGroup
	for c := range 2 {
		wg.Go(func() {
			for i := range capacity {
				if _, ok := r.Charge(fmt.Appendf(nil, "invented-%d-%d", c, i), 1, start, l); !ok { // a key of its own each time
					t.Error("a new key was refused")
				}
			}
		})
	}
	wg.Wait()
	held, accounts := map[string]bool{}, 0
	for i := range r.table {
		for j := range r.table[i].accounts {
			if a := r.table[i].accounts[j].Load(); a != nil {
				held[a.key] = true
				accounts++
			}
		}
	}
	require.Len(t, held, accounts, "each account is of another key")
	require.EqualValues(t, 2*capacity+1, uint64(accounts)+r.Forgot(), "each key has an account, or had one that was given up")
	_, ok = r.Charge(hog, 1, start, l)
	require.False(t, ok, "the busy key is not the one that is forgotten")

	forgot := r.Forgot()
	for i := range capacity { // a minute later all have paid: nothing is lost by giving one up
		if _, ok := r.Charge(fmt.Appendf(nil, "later-%d", i), 1, start+time.Minute, NewLimit(MaxRate, 1)); !ok {
			t.Error("a new key was refused")
		}
	}
	require.Less(t, r.Forgot()-forgot, uint64(capacity), "an idle account goes before one that owes")
}

// An account that is evicted after it was found is not charged.
func TestAccountThatIsGivenUpIsNotCharged(t *testing.T) {
	r, l := newRates(1), NewLimit(1, 1)
	s := &r.table[0]
	a := r.add(s, []byte("a"), 1, 0)
	for i := range ways {
		_, there := r.add(s, fmt.Append(nil, i), uint32(i)<<1|1, 0).charge(l.each, 0, l.burst)
		require.True(t, there)
	}
	require.Nil(t, s.find([]byte("a"), 1))
	b := r.add(s, []byte("b"), 7, 0)
	require.Same(t, b, r.add(s, []byte("b"), 7, 0), "the second caller finds the account of the first")
	require.NotSame(t, b, r.add(s, []byte("c"), 7, 0), "of one hash")
	_, there := a.charge(l.each, 0, l.burst)
	require.False(t, there)
}

func TestKnownKeyAllocatesNothing(t *testing.T) {
	r, l := NewRates(), NewLimit(MaxRate, MaxBurst)
	key := []byte("order")
	r.Charge(key, 1, start, l)
	require.Zero(t, testing.AllocsPerRun(1000, func() { r.Charge(key, 1, start, l) }))
}
