package segment_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// A database that refuses costs an idle daemon with thousands of tags in use a few statements a second, and all have their ranges
// a moment after it is back.
func TestOutageOfManyTags(t *testing.T) {
	for name, c := range map[string]struct {
		tags int
		away func(s *segmenttest.Store) (back func())
		is   error
	}{
		"killed":         {5000, func(s *segmenttest.Store) func() { s.Fail(segmenttest.ErrAway); return func() { s.Fail(nil) } }, segment.ErrStore},
		"frozen":         {1000, func(s *segmenttest.Store) func() { return s.Hang() }, segment.ErrStore},
		"read-only":      {1000, func(s *segmenttest.Store) func() { s.ReadOnly(true); return func() { s.ReadOnly(false) } }, segment.ErrReadOnly},
		"without a name": {1000, func(s *segmenttest.Store) func() { s.Fail(errBoom, segmenttest.OpMove); return func() { s.Fail(nil) } }, errBoom},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t)
			names := named(d.store, "tag", c.tags, 100)
			for some := range slices.Chunk(names, 5000) {
				require.Zero(t, d.each(some))
			}
			clocktest.Pass(time.Minute)
			back := c.away(d.store)
			for _, name := range names {
				d.draw(name, 20) // wants the next range
			}
			clocktest.Pass(20 * time.Second)
			begun := d.store.Calls()
			clocktest.Pass(100 * time.Second)
			require.Less(t, d.store.Calls()-begun, 5000, "50 a second")

			cold := time.Now()
			_, err := d.ids(names[0], 100)
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.ErrorIs(t, err, c.is)
			require.Zero(t, time.Since(cold), "a request is refused at once")
			require.Len(t, d.Troubles(), 1)
			require.ErrorIs(t, d.Troubles()[0].Err, c.is)

			back()
			clocktest.Pass(10 * time.Second)
			for _, name := range names {
				require.True(t, d.status(name).Next.Ready, name)
			}
			require.Empty(t, d.Troubles())
		})
	}
}

// While the database is away, a name that isn't known is 503, at once, and not 404.
func TestLookUpsInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		d.store.Set("order", 0, 10)
		d.id("order")
		d.store.Fail(segmenttest.ErrAway)
		for i := range 1000 {
			_, err := d.try(fmt.Sprint("invented", i))
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.ErrorIs(t, err, segment.ErrStore)
			require.NotErrorIs(t, err, segment.ErrUnknownTag)
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, d.store.Calls(segmenttest.OpFind), 100)
		require.True(t, d.troubled(segment.ErrStore, ""))
		d.store.Fail(nil)
		clocktest.Pass(time.Second)
		_, err := d.try("invented 7")
		require.ErrorIs(t, err, segment.ErrUnknownTag)
		require.Empty(t, d.Troubles())
	})
}

// A read-only database goes on finding rows: what it finds doesn't end the outage of the fetches.
func TestLookUpsDontEndAnOutageOfFetches(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		names := named(d.store, "tag", 200, 10)
		require.Zero(t, d.each(names))
		synctest.Wait()
		d.store.ReadOnly(true)
		for range 2 { // of all that they have
			for _, name := range names {
				_, err := d.ids(name, 100)
				require.ErrorIs(t, err, segment.ErrReadOnly)
			}
		}
		clocktest.Pass(5 * time.Second)
		begun := d.store.Calls(segmenttest.OpBegin)
		for i := range 300 {
			_, _ = d.try(fmt.Sprint("invented", i))
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, d.store.Calls(segmenttest.OpBegin)-begun, 121, "the probes of 30 seconds")
		require.True(t, d.troubled(segment.ErrStore, ""))
		d.store.ReadOnly(false)
		clocktest.Pass(time.Second)
		require.Zero(t, d.each(names))
	})
}

// hanging has fetches of tag hang.
func hanging(tag string) segmenttest.Hook {
	return func(ctx context.Context, op segmenttest.Op, tags []string) error {
		for _, of := range tags {
			if op == segmenttest.OpBegin && of == tag {
				<-ctx.Done()
				return fmt.Errorf("%w: %w", segment.ErrStore, ctx.Err())
			}
		}
		return nil
	}
}

// One row that hangs, or that breaks its connection, is no outage.
func TestOneRowIsNoOutage(t *testing.T) {
	for name, hook := range map[string]segmenttest.Hook{
		"hangs":  hanging("bad"),
		"breaks": failing("bad", segmenttest.ErrAway),
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon(t)
			d.store.Set("bad", 0, 10)
			d.store.Before(hook)
			for i := range 20 {
				go func() { _, _ = d.try("bad") }()
				time.Sleep(10 * time.Millisecond) // what is in one batch with it waits for it
				names := named(d.store, fmt.Sprintf("tag%d", i), 20, 10)
				require.Zero(t, d.each(names))
				time.Sleep(500 * time.Millisecond)
			}
			require.Less(t, d.store.Calls(segmenttest.OpBegin), 1000)
			d.store.Before(nil)
			clocktest.Pass(5 * time.Second)
			d.id("bad")
		})
	}
}

// The marks can't be read: no name is looked up, and none is unknown.
func TestMarksCantBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := segmenttest.NewHighWater()
		broken.Fail(errBoom)
		d := newDaemon(t, func(d *daemon) { d.marks = broken })
		d.store.Set("order", 0, 10)
		for range 100 {
			_, err := d.try("order")
			require.ErrorIs(t, err, segment.ErrMark)
			time.Sleep(50 * time.Millisecond)
		}
		require.ErrorIs(t, d.Ready(), segment.ErrMark)
		require.True(t, d.troubled(segment.ErrMark, ""))
		require.Zero(t, d.store.Calls(segmenttest.OpFind))
		broken.Fail(nil)
		clocktest.Pass(2 * time.Second)
		require.NoError(t, d.Ready())
		d.id("order")
		broken.Fail(errBoom, segmenttest.OpGet)
		d.store.Set("user", 0, 10)
		for range 100 {
			_, err := d.try("user")
			require.ErrorIs(t, err, segment.ErrMark)
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, d.store.Calls(segmenttest.OpFind), 30)
		d.draw("order", 5)
		broken.Fail(nil)
		d.served("user", time.Second)
	})
}

// The end of Run: what waits is told, what is under way is broken off, and all of it has ended.
func TestRunEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, d *daemon) {
		names := named(d.store, "tag", 300, 100)
		require.Zero(t, d.each(names[:100]))
		d.store.Hang()
		errs := make(chan error, len(names))
		for _, name := range names {
			go func() { _, err := d.ids(name, 500); errs <- err }()
		}
		synctest.Wait()
		d.stop()
		for range names {
			err := <-errs
			require.ErrorIs(t, err, segment.ErrUnavailable)
		}
		require.Error(t, d.Run(t.Context()), "a service runs once")
		d.id(names[0]) // from memory
		_, err := d.try("never")
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.Empty(t, d.of("anything"))
	}, guarded, with(func(c *segment.Config) { c.Wait, c.FetchTimeout = time.Hour, time.Hour }))
}

// A service that has not reached its store yet says so.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		back := store.Hang()
		d := newDaemon(t, func(d *daemon) { d.store = store })
		require.ErrorIs(t, d.Ready(), segment.ErrUnavailable)
		require.True(t, d.troubled(segment.ErrReading, ""))
		clocktest.Pass(5 * time.Second)
		require.ErrorIs(t, d.Ready(), segment.ErrLate)
		require.True(t, d.troubled(segment.ErrUnavailable, ""))
		back()
		clocktest.Pass(3 * time.Second)
		require.NoError(t, d.Ready())
		require.Empty(t, d.Troubles())
	})
	for field, cfg := range map[string]segment.Config{
		"Store":        {},
		"Marks":        {Store: segmenttest.NewStore(), HighWater: segmenttest.NewHighWater()},
		"Wait":         {Store: segmenttest.NewStore(), HighWater: segmenttest.NewHighWater(), Marks: "x", Wait: -1},
		"FetchTimeout": {Store: segmenttest.NewStore(), HighWater: segmenttest.NewHighWater(), Marks: "x", FetchTimeout: -1},
	} {
		_, err := segment.New(cfg)
		require.ErrorContains(t, err, field)
	}
}

// An error has one name in JSON and metrics, the first that it is.
func TestReasons(t *testing.T) {
	require.Equal(t, "read_only", segment.ReasonOf(fmt.Errorf("%w: %w", segment.ErrStore, segment.ErrReadOnly), "x"))
	require.Equal(t, "x", segment.ReasonOf(errors.New("?"), "x"))
	names := map[string]bool{}
	for _, r := range segment.Reasons() {
		require.False(t, names[r.Name])
		names[r.Name] = true
		require.Equal(t, r.Name, segment.ReasonOf(fmt.Errorf("of a tag: %w", r.Is), "x"))
	}
}
