package storetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// GuardFixture is one empty guard of a cluster, made for one test.
type GuardFixture struct {
	// Open returns one more daemon's Guard, connected; the fixture closes it.
	Open func(t testing.TB) segment.Guard
	// Reconnect breaks a Guard's connection, and returns once it has another one.
	Reconnect func(t testing.TB, g segment.Guard)
	// Snapshot returns what sets the guard back to what it holds now, versions included;
	// every connection breaks.
	Snapshot func(t testing.TB) (restore func(t testing.TB))
	// WriteRoot writes the root, to note a loss of data in it, or for another reason.
	WriteRoot func(t testing.TB, loss bool)
	// Damage makes a tag's high mark unreadable.
	Damage func(t testing.TB, tag string)
	// Refuse has writes of a tag's high mark refused.
	Refuse func(t testing.TB, tag string)
}

// RunGuard runs the suite of segment.Guard.
func RunGuard(t *testing.T, open func(t *testing.T) GuardFixture) {
	tests := map[string]func(t *testing.T, f GuardFixture, a, b guarded){
		"no high mark is zero":             testGuardNone,
		"a write needs what was read":      testGuardConditional,
		"a high mark is read as written":   testGuardFields,
		"all of a batch, or nothing":       testGuardBatch,
		"one of many writes at once":       testGuardConcurrent,
		"tags are exact":                   testGuardTags,
		"the root has changed":             testGuardMoved,
		"nothing counts over a connection": testGuardReconnect,
		"a guard that was set back":        testGuardSetBack,
		"a damaged high mark":              testGuardDamaged,
		"a high mark that is refused":      testGuardRefused,
		"a context that ended":             testGuardCancelled,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			test(t, f, guarded{t, f.Open(t)}, guarded{t, f.Open(t)})
		})
	}
}

// guarded is a Guard whose answers are checked as the interface has them.
type guarded struct {
	t *testing.T
	segment.Guard
}

func (g guarded) open() segment.Opened {
	g.t.Helper()
	o, err := g.Open(patient(g.t))
	require.NoError(g.t, err)
	require.NotZero(g.t, o.Conn)
	require.NotEmpty(g.t, o.Cluster)
	require.Equal(g.t, o.Conn, g.Connection())
	return o
}

func (g guarded) read(tags ...string) []segment.HighMark {
	g.t.Helper()
	marks, err := g.Read(patient(g.t), g.open(), tags)
	require.NoError(g.t, err)
	require.Len(g.t, marks, len(tags))
	for i, m := range marks {
		require.Equal(g.t, tags[i], m.Tag)
		require.Equal(g.t, m.Version < 0, m.High == 0 && m.Err == nil, "what these tests write is above 0: %v", m)
	}
	return marks
}

// write writes marks with another High, and returns them as they are then.
func (g guarded) write(high int64, marks ...segment.HighMark) []segment.HighMark {
	g.t.Helper()
	require.NoError(g.t, g.try(g.open(), high, marks...))
	var tags []string
	for i := range marks {
		tags = append(tags, marks[i].Tag)
	}
	all := g.read(tags...)
	for i, m := range all {
		require.Equal(g.t, marks[i].Version+1, m.Version)
		require.Equal(g.t, high, m.High)
	}
	return all
}

func (g guarded) try(at segment.Opened, high int64, marks ...segment.HighMark) error {
	g.t.Helper()
	marks = slices.Clone(marks)
	for i := range marks {
		marks[i].High, marks[i].By = high, "a/1"
	}
	return g.Write(patient(g.t), at, marks)
}

// requireHigh checks what is read, of tags "order" and "other" at most.
func (g guarded) requireHigh(highs ...int64) {
	g.t.Helper()
	for i, m := range g.read([]string{"order", "other"}[:len(highs)]...) {
		require.Equal(g.t, highs[i], m.High, m.Tag)
	}
}

func testGuardNone(t *testing.T, _ GuardFixture, a, _ guarded) {
	require.Equal(t, []segment.HighMark{{Tag: "order", Version: -1}, {Tag: "a", Version: -1}}, a.read("order", "a"))
	require.Empty(t, a.read())
}

func testGuardConditional(t *testing.T, _ GuardFixture, a, b guarded) {
	none := b.read("order")
	first := a.write(101, a.read("order")...)
	require.ErrorIs(t, b.try(b.open(), 201, none...), segment.ErrGuardConflict, "it is there by now")
	require.Equal(t, first, b.read("order"))
	second := a.write(301, first...)
	require.ErrorIs(t, b.try(b.open(), 201, first...), segment.ErrGuardConflict, "it was written since")
	b.requireHigh(301)
	a.write(math.MaxInt64, second...)
}

func testGuardFields(t *testing.T, _ GuardFixture, a, b guarded) {
	for i, want := range []segment.HighMark{
		{Tag: "order", High: 5001, Seen: 4001, On: `db1:3306/"1"`, By: "node a/0f", Version: -1},
		{Tag: "order", High: 5001, Seen: 5001, By: "node a/0f", Deleted: true},
		{Tag: "order", High: 9001, By: "b/1", Version: 1},
	} {
		require.NoError(t, a.Write(patient(t), a.open(), []segment.HighMark{want}))
		read := b.read("order")[0]
		want.Version, want.WroteAt = int64(i), read.WroteAt
		require.Equal(t, want, read)
		require.GreaterOrEqual(t, read.WroteAt, int64(0))
	}
}

// testGuardBatch: the second of two is another than was read.
func testGuardBatch(t *testing.T, _ GuardFixture, a, b guarded) {
	none := b.read("order", "other")
	other := a.write(5, none[1])
	require.ErrorIs(t, b.try(b.open(), 7, none...), segment.ErrGuardConflict)
	a.requireHigh(0, 5)
	all := a.write(9, none[0], other[0])
	a.write(11, all[1])
	require.ErrorIs(t, b.try(b.open(), 13, all...), segment.ErrGuardConflict)
	a.requireHigh(9, 11)
}

func testGuardConcurrent(t *testing.T, f GuardFixture, a, b guarded) {
	const each = 25
	all := []guarded{a, b, {t, f.Open(t)}}
	var group sync.WaitGroup
	var mu sync.Mutex
	written := map[int64]bool{}
	for _, g := range all {
		at := g.open()
		group.Go(func() {
			for n := 0; n < each && !t.Failed(); {
				marks, err := g.Read(patient(t), at, []string{"order"})
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				if g.try(at, marks[0].High+1, marks...) != nil {
					continue // a conflict; anything else ends the loop at Read, or the test
				}
				n++
				mu.Lock()
				if written[marks[0].High+1] {
					t.Errorf("%d was written twice", marks[0].High+1)
				}
				written[marks[0].High+1] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	a.requireHigh(int64(each * len(all)))
}

// testGuardTags: all are written at once, and are as long and as many as a fetch can have.
func testGuardTags(t *testing.T, _ GuardFixture, a, b guarded) {
	tags := []string{
		"order", "Order", "order ", " order", "o'rder", "注文", "a/b", "a%2Fb", "a/../b", ".", "..", "...", "%", "zookeeper", "a b", "\x00", "\x01", "\x7f", "-1", "\u0085", "\ufff0",
		strings.Repeat("x", segment.MaxTagBytes), strings.Repeat("😀", segment.MaxTagBytes/4), strings.Repeat("/", segment.MaxTagBytes), strings.Repeat("..", segment.MaxTagBytes/2),
		strings.Repeat("\x1f", segment.MaxTagBytes),
	}
	for i := len(tags); i < 64; i++ {
		tags = append(tags, fmt.Sprintf("tag-%d", i))
	}
	marks := a.read(tags...)
	for i := range marks {
		marks[i].High, marks[i].By = int64(i+1), "a/1"
	}
	require.NoError(t, a.Write(patient(t), a.open(), marks))
	for i, m := range b.read(tags...) {
		require.EqualValues(t, i+1, m.High, "%q", m.Tag)
	}
}

func testGuardMoved(t *testing.T, f GuardFixture, a, _ guarded) {
	before := a.open()
	for _, loss := range []bool{true, false} {
		marks := a.read("order")
		f.WriteRoot(t, loss)
		require.ErrorIs(t, a.try(before, 5, marks...), segment.ErrGuardMoved)
		a.requireHigh(0)
		now := a.open()
		require.NotEqual(t, before.Root, now.Root)
		require.Equal(t, loss, before.Loss != now.Loss)
		require.Equal(t, []any{before.Conn, before.Cluster}, []any{now.Conn, now.Cluster})
		before = now
	}
	a.write(5, a.read("order")...)
}

func testGuardReconnect(t *testing.T, f GuardFixture, a, b guarded) {
	before, none := a.open(), a.read("other")
	first := a.write(5, a.read("order")...)
	f.Reconnect(t, a.Guard)
	_, err := a.Read(patient(t), before, []string{"order"})
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.ErrorIs(t, a.try(before, 7, first...), segment.ErrGuardAway)
	require.ErrorIs(t, a.try(before, 7, none...), segment.ErrGuardAway, "one that is new isn't written over another connection either")
	require.NotEqual(t, before.Conn, a.open().Conn)
	b.requireHigh(5, 0)
	a.write(7, a.read("order")...)
}

// testGuardSetBack: versions are counted once more, and what was read at one of them before
// is not what stands there now.
func testGuardSetBack(t *testing.T, f GuardFixture, a, b guarded) {
	first := a.write(5, a.read("order")...)
	restore := f.Snapshot(t)
	before, known := a.open(), a.write(50, first...)
	restore(t)
	b.requireHigh(5)
	again := b.write(60, b.read("order")...)
	require.Equal(t, known[0].Version, again[0].Version, "the same version once more: else this shows nothing")
	require.ErrorIs(t, a.try(before, 70, known...), segment.ErrGuardAway)
	f.WriteRoot(t, true) // as everything that notices does
	before.Conn = a.Connection()
	require.ErrorIs(t, a.try(before, 70, known...), segment.ErrGuardMoved)
	b.requireHigh(60)
	a.write(70, a.read("order")...)
}

func testGuardDamaged(t *testing.T, f GuardFixture, a, _ guarded) {
	a.write(5, a.read("order", "other")...)
	f.Damage(t, "order")
	marks := a.read("order", "new", "other")
	err := marks[0].Err
	require.ErrorIs(t, err, segment.ErrGuardRefused)
	require.ErrorContains(t, err, "order", "it names which")
	require.Equal(t, segment.HighMark{Tag: "order", Err: err}, marks[0])
	a.write(7, marks[1:]...)
}

func testGuardRefused(t *testing.T, f GuardFixture, a, _ guarded) {
	marks := a.write(5, a.read("order", "other")...)
	f.Refuse(t, "order")
	err := a.try(a.open(), 7, marks...)
	require.ErrorIs(t, err, segment.ErrGuardRefused)
	require.NotErrorIs(t, err, segment.ErrGuardAway, "it must not be gone around")
	require.ErrorContains(t, err, "order")
	a.write(9, marks[1])
}

func testGuardCancelled(t *testing.T, _ GuardFixture, a, b guarded) {
	at, marks := a.open(), a.read("order")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.Open(ctx)
	require.ErrorIs(t, err, segment.ErrGuardAway)
	_, err = a.Read(ctx, at, []string{"order"})
	require.ErrorIs(t, err, segment.ErrGuardAway)
	require.ErrorIs(t, a.Write(ctx, at, marks), segment.ErrGuardAway)
	b.requireHigh(0)
}
