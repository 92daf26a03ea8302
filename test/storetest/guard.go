package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// GuardFixture is one empty guard, made for one test.
type GuardFixture struct {
	// Open returns one more daemon's Guard, connected; the fixture closes it.
	Open func(t testing.TB) segment.Guard
	// Reconnect breaks a Guard's connection, and returns once it has another one.
	Reconnect func(t testing.TB, g segment.Guard)
	// Snapshot returns what sets the guard back to what it holds now, versions included;
	// every connection breaks.
	Snapshot func(t testing.TB) (restore func(t testing.TB))
	// Damage makes a tag's high mark unreadable.
	Damage func(t testing.TB, tag string)
	// Forget removes a tag's high mark.
	Forget func(t testing.TB, tag string)
}

// RunGuard runs the suite of segment.Guard.
func RunGuard(t *testing.T, open func(t *testing.T) GuardFixture) {
	tests := map[string]func(t *testing.T, f GuardFixture){
		"no high mark is zero":             testGuardNone,
		"a write needs what was read":      testGuardConditional,
		"a write names its writer":         testGuardBy,
		"one of many writes at once":       testGuardConcurrent,
		"tags are exact":                   testGuardTags,
		"nothing counts over a connection": testGuardReconnect,
		"a guard that was set back":        testGuardSetBack,
		"a damaged high mark":              testGuardDamaged,
		"a high mark that was removed":     testGuardForgotten,
		"a context that ended":             testGuardCancelled,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// opened returns the number of g's connection.
func opened(t testing.TB, g segment.Guard) uint64 {
	t.Helper()
	o, err := g.Open(patient(t))
	require.NoError(t, err)
	require.NotZero(t, o.Conn)
	require.Equal(t, o.Conn, g.Connection())
	require.Zero(t, o.Wait, "a new guard has lost nothing")
	return o.Conn
}

func get(t testing.TB, g segment.Guard, tag string) segment.HighMark {
	t.Helper()
	m, err := g.Get(patient(t), opened(t, g), tag)
	require.NoError(t, err)
	return m
}

func put(t testing.TB, g segment.Guard, tag string, seen segment.HighMark, high int64, by string) segment.HighMark {
	t.Helper()
	m, err := g.Put(patient(t), tag, seen, high, by)
	require.NoError(t, err)
	require.Equal(t, high, m.High)
	require.Equal(t, by, m.By)
	read := get(t, g, tag)
	read.Written = m.Written // of Get alone
	require.Equal(t, m, read, "as it is read")
	return m
}

func testGuardNone(t *testing.T, f GuardFixture) {
	g := f.Open(t)
	m := get(t, g, "order")
	require.Equal(t, segment.HighMark{Version: -1, Conn: g.Connection()}, m)
}

func testGuardConditional(t *testing.T, f GuardFixture) {
	a, b := f.Open(t), f.Open(t)
	none, noneOfB := get(t, a, "order"), get(t, b, "order")
	first := put(t, a, "order", none, 101, "a/1")
	_, err := b.Put(patient(t), "order", noneOfB, 201, "b/1")
	require.ErrorIs(t, err, segment.ErrGuardConflict, "it is there by now")
	read := get(t, b, "order")
	require.Equal(t, first.Version, read.Version)
	second := put(t, a, "order", first, 301, "a/2")
	_, err = b.Put(patient(t), "order", read, 201, "b/1")
	require.ErrorIs(t, err, segment.ErrGuardConflict, "it was written since")
	require.EqualValues(t, 301, get(t, b, "order").High, "nothing was written")
	put(t, a, "order", second, math.MaxInt64, "a/3")
}

func testGuardBy(t *testing.T, f GuardFixture) {
	a, b := f.Open(t), f.Open(t)
	put(t, a, "order", get(t, a, "order"), 5, `life "1"/7`)
	require.Equal(t, `life "1"/7`, get(t, b, "order").By)
}

func testGuardConcurrent(t *testing.T, f GuardFixture) {
	const each = 25
	guards := []segment.Guard{f.Open(t), f.Open(t), f.Open(t)}
	var mu sync.Mutex
	highs := map[int64]string{}
	var group sync.WaitGroup
	for i, g := range guards {
		conn := opened(t, g)
		group.Go(func() {
			for n := 0; n < each && !t.Failed(); {
				m, err := g.Get(patient(t), conn, "order")
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				by := fmt.Sprintf("%d/%d", i, n)
				m, err = g.Put(patient(t), "order", m, m.High+1, by)
				if err != nil {
					continue // a conflict; anything else ends the loop at Get, or the test
				}
				n++
				mu.Lock()
				if other, twice := highs[m.High]; twice {
					t.Errorf("%d was written by %s and %s", m.High, other, by)
				}
				highs[m.High] = by
				mu.Unlock()
			}
		})
	}
	group.Wait()
	require.EqualValues(t, each*len(guards), get(t, guards[0], "order").High)
}

func testGuardTags(t *testing.T, f GuardFixture) {
	g := f.Open(t)
	tags := []string{
		"order", "Order", "order ", " order", "o'rder", "注文", "a/b", "a%2Fb", "a/../b", ".", "..", "%", "zookeeper", "a b", "\x01", "-1",
		strings.Repeat("x", segment.MaxTagBytes), strings.Repeat("注", segment.MaxTagBytes/3),
	}
	for i, tag := range tags {
		put(t, g, tag, get(t, g, tag), int64(i+1), "a/1")
	}
	for i, tag := range tags {
		require.EqualValues(t, i+1, get(t, g, tag).High, "%q", tag)
	}
}

func testGuardReconnect(t *testing.T, f GuardFixture) {
	g := f.Open(t)
	before := opened(t, g)
	first := put(t, g, "order", get(t, g, "order"), 5, "a/1")
	f.Reconnect(t, g)
	_, err := g.Get(patient(t), before, "order")
	require.ErrorIs(t, err, segment.ErrGuardAway)
	_, err = g.Put(patient(t), "order", first, 7, "a/2")
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.NotEqual(t, before, opened(t, g))
	m := get(t, g, "order")
	require.EqualValues(t, 5, m.High)
	put(t, g, "order", m, 7, "a/2")
}

// testGuardSetBack: versions are counted once more, and what was read at one of them before
// is not what stands there now.
func testGuardSetBack(t *testing.T, f GuardFixture) {
	a, b := f.Open(t), f.Open(t)
	put(t, a, "order", get(t, a, "order"), 5, "a/1")
	restore := f.Snapshot(t)
	known := put(t, a, "order", get(t, a, "order"), 50, "a/2")
	restore(t)
	m := get(t, b, "order")
	require.EqualValues(t, 5, m.High)
	m = put(t, b, "order", m, 60, "b/1")
	require.Equal(t, known.Version, m.Version, "the same version once more: else this shows nothing")
	_, err := a.Put(patient(t), "order", known, 70, "a/3")
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.EqualValues(t, 60, get(t, a, "order").High)
}

func testGuardDamaged(t *testing.T, f GuardFixture) {
	g := f.Open(t)
	put(t, g, "order", get(t, g, "order"), 5, "a/1")
	f.Damage(t, "order")
	_, err := g.Get(patient(t), opened(t, g), "order")
	require.ErrorIs(t, err, segment.ErrGuardDamaged)
	require.NotErrorIs(t, err, segment.ErrGuardAway, "it must not be gone around")
	require.ErrorContains(t, err, "order", "it names which")
	put(t, g, "other", get(t, g, "other"), 5, "a/2")
}

func testGuardForgotten(t *testing.T, f GuardFixture) {
	g := f.Open(t)
	known := put(t, g, "order", get(t, g, "order"), 5, "a/1")
	f.Forget(t, "order")
	_, err := g.Put(patient(t), "order", known, 7, "a/2")
	require.ErrorIs(t, err, segment.ErrGuardConflict)
	put(t, g, "order", get(t, g, "order"), 3, "a/3")
}

func testGuardCancelled(t *testing.T, f GuardFixture) {
	g := f.Open(t)
	m := get(t, g, "order")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := g.Open(ctx)
	require.ErrorIs(t, err, segment.ErrGuardAway)
	_, err = g.Get(ctx, m.Conn, "order")
	require.ErrorIs(t, err, segment.ErrGuardAway)
	_, err = g.Put(ctx, "order", m, 5, "a/1")
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.Zero(t, get(t, g, "order").High)
}
