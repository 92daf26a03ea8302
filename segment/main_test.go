package segment_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/segmenttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(mariadbtest.StopAfter(m)) }

// patience bounds every wait on a condition; only a broken program reaches it.
const patience = 30 * time.Second

// eventually looks every millisecond, in a bubble by the time of that, until ok.
func eventually(tb testing.TB, ok func() bool, what string) {
	tb.Helper()
	for range patience / time.Millisecond {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	require.Fail(tb, "it never came", what)
}

// newService returns a service that doesn't run yet, with marks in memory if cfg has none.
// By the machine's clock its times are such that a busy machine is no failure, where cfg
// doesn't say others.
func newService(tb testing.TB, cfg segment.Config) *segment.Service {
	tb.Helper()
	if cfg.HighWater == nil {
		cfg.HighWater = segmenttest.NewHighWater()
	}
	if cfg.Clock == nil {
		cfg.Wait, cfg.FetchTimeout = cmp.Or(cfg.Wait, patience), cmp.Or(cfg.FetchTimeout, patience)
	}
	svc, err := segment.New(cfg)
	require.NoError(tb, err)
	return svc
}

// troubled tells whether svc is in that trouble, with a tag or "".
func troubled(svc *segment.Service, is error, tag string) bool {
	return slices.ContainsFunc(svc.Troubles(), func(t segment.Trouble) bool { return errors.Is(t.Is, is) && t.Tag == tag })
}

// couldNotRead tells whether svc has tried in vain to read the tags, and says so.
func couldNotRead(svc *segment.Service) bool {
	return troubled(svc, segment.ErrUnavailable, "") && strings.Contains(svc.Troubles()[0].Err.Error(), "could not be read yet")
}

// run runs svc until the test ends or stop is called; stop returns when Run has.
func run(tb testing.TB, svc *segment.Service) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(tb, <-done)
		})
	}
	tb.Cleanup(stop)
	return stop
}

// start returns a service that runs, its tags read.
func start(tb testing.TB, cfg segment.Config) *segment.Service {
	tb.Helper()
	svc := newService(tb, cfg)
	run(tb, svc)
	if _, ok := cfg.Clock.(*clocktest.Bubble); ok {
		synctest.Wait()
	}
	eventually(tb, svc.Loaded, "tags read")
	return svc
}

func lookup(tb testing.TB, svc *segment.Service, name string) *segment.Tag {
	tb.Helper()
	tag, err := svc.Lookup([]byte(name))
	require.NoError(tb, err)
	return tag
}

func next(tb testing.TB, tag *segment.Tag) int64 {
	tb.Helper()
	id, err := tag.Next(context.Background())
	require.NoError(tb, err)
	return id
}

// reload has the service make a pass, and waits until what it has found was told.
func reload(tb testing.TB, svc *segment.Service, deleted ...string) {
	tb.Helper()
	require.NoError(tb, svc.Reload(context.Background(), deleted...))
	eventually(tb, svc.Told, "events told")
}

// status returns the state of one tag.
func status(tb testing.TB, svc *segment.Service, name string) segment.Status {
	tb.Helper()
	return lookup(tb, svc, name).Status()
}

// fakeClock is the clock of a service in a bubble.
func fakeClock() *clocktest.Bubble { return clocktest.NewBubble(time.Unix(1_700_000_000, 0)) }

// recorder keeps the events of a service.
type recorder struct {
	mu     sync.Mutex
	events []segment.Event
}

func (r *recorder) notify(e segment.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// of returns the events of one kind and tag, in order.
func (r *recorder) of(kind segment.Kind, tag string) []segment.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []segment.Event
	for _, e := range r.events {
		if e.Kind == kind && e.Tag == tag {
			found = append(found, e)
		}
	}
	return found
}

// kinds returns the kinds of the events of tag, in order.
func (r *recorder) kinds(tag string) []segment.Kind {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []segment.Kind
	for _, e := range r.events {
		if e.Tag == tag {
			found = append(found, e.Kind)
		}
	}
	return found
}
