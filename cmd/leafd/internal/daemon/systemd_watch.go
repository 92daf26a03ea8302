package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// statusInterval is how often the status line is made; it is sent when it has changed.
const statusInterval = time.Second

// supervisor is the daemon's side of the service manager: the status line, READY=1, and
// the watchdog's checks.
type supervisor struct {
	notify *Notifier // immutable
	dog    *watchdog // immutable

	d     *daemon     // immutable; it is asked for the status line
	asked atomic.Bool // once it has a server
}

func newSupervisor(deps Deps, d *daemon) *supervisor {
	n := deps.Notify
	if n == nil {
		n = &Notifier{log: deps.Log}
	}
	return &supervisor{notify: n, dog: newWatchdog(n, deps.Log, deps.Watchdog), d: d}
}

// startSlack is what a start may take above the waits that settings bound: the
// data directory, the database, the peers.
const startSlack = time.Minute

// stopSlack is what a stop may take above what bounds its parts, on a slow machine.
const stopSlack = 15 * time.Second

// begin runs the supervision until end is called, which is when the daemon has come
// down: a stop is watched like a start.
func (s *supervisor) begin(cfg settings.Config) (end func()) {
	// ZooKeeper and the recorded ceiling may each be waited for that long.
	s.notify.Starting(2*cfg.Clock.StartupTimeout + startSlack)
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { s.dog.run(ctx) })
	both.Go(func() { s.tellStatus(ctx) })
	return func() {
		cancel()
		both.Wait()
	}
}

// listening adds the check of the public listener.
func (s *supervisor) listening(addr net.Addr, config *tls.Config) {
	s.asked.Store(true)
	s.dog.add("listener", func(ctx context.Context) error { return askSelf(ctx, addr, config) })
}

// issues notes a life that has started: the daemon is ready. l is nil where
// snowflake IDs are switched off. The database isn't waited for: what it
// has to give is served once it is there, and snowflake IDs don't need it.
func (s *supervisor) issues(l *life) {
	if l != nil {
		s.dog.add("worker", func(context.Context) error { return l.worker.Stuck() })
		s.dog.add("generator", func(context.Context) error {
			_ = l.ids.Check() // that it returns is the point
			_ = l.worker.Check()
			return nil
		})
	}
	s.notify.Status(s.line())
	s.notify.Ready()
}

// holdBack is how long clients may wait in a socket of systemd for the start.
const holdBack = time.Second

// hold returns when the daemon is ready, or holdBack is over. Clients that connect while
// leafd is restarted wait in systemd's socket; accepted any earlier, they would get an
// error. A start that has to wait for longer answers with that error.
func (s *supervisor) hold() {
	for until := time.Now().Add(holdBack); !s.d.server.Ready() && !s.dog.ends() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
}

// stopping tells that the stop has begun, which takes within at most.
func (s *supervisor) stopping(within time.Duration) {
	s.dog.stop()
	s.notify.Stopping(within)
	s.notify.Status(s.line())
}

// tellStatus tells the status line on change, until ctx is done.
func (s *supervisor) tellStatus(ctx context.Context) {
	if s.notify.send == nil {
		return
	}
	next := time.NewTicker(statusInterval)
	defer next.Stop()
	for {
		if s.dog.stuck() == "" { // else line may not return, and the watchdog tells
			s.notify.Status(s.line())
		}
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
	}
}
