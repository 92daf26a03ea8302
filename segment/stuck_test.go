package segment_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
)

// A store that hangs makes nothing stuck; a Notify that never returns does, and is named.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("a", 1, 10)
		told, gate := make(chan struct{}, 1), make(chan struct{})
		release := sync.OnceFunc(func() { close(gate) })
		defer release() // or a failure here would wait for Run for ever
		svc := newService(t, segment.Config{Store: store, Clock: fakeClock(), Notify: func(e segment.Event) {
			if e.Kind == segment.KindTagChanged {
				told <- struct{}{}
				<-gate
			}
		}})
		require.NoError(t, svc.Stuck(), "it doesn't run yet")
		stop := run(t, svc)
		eventually(t, svc.Loaded, "loaded")
		require.NoError(t, svc.Stuck())

		resume := store.Hang()
		eventually(t, func() bool { clocktest.Pass(time.Second); return store.Hung() > 0 }, "the next look at the table")
		clocktest.Pass(segment.DefaultFetchTimeout / 2)
		require.NoError(t, svc.Stuck(), "a store that hangs is no reason")
		resume()
		store.Set("a", 1, 20)
		<-told
		require.NoError(t, svc.Stuck(), "not late yet")
		clocktest.Pass(time.Minute)
		require.ErrorContains(t, svc.Stuck(), "the call of Notify is ")
		release()
		eventually(t, func() bool { return svc.Stuck() == nil }, "it comes round")
		stop()
		require.NoError(t, svc.Stuck(), "it has ended")
	})
}
