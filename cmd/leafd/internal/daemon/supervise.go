package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/leafd/leafd/server/condition"
)

const (
	// statusInterval is how often the status line is made, and the session with ZooKeeper looked at:
	// they are sent, and logged, when they have changed.
	statusInterval = time.Second
	// watchdogRounds is how many rounds of checks there are in systemd's time.
	watchdogRounds = 3
	// startSlack is what a start may take above the waits that settings bound: the
	// data directory, the database, the peers.
	startSlack = time.Minute
	// stopSlack is what a stop may take above what bounds its parts, on a slow machine.
	stopSlack = 15 * time.Second
	// holdBack is how long clients may wait in a socket of systemd for the start.
	holdBack = time.Second
)

// supervise tells systemd how the daemon is until that has come down: a stop is watched like a start.
func (d *daemon) supervise() {
	// ZooKeeper and the recorded ceiling may each be waited for that long.
	d.Notify.tell(extend(2*d.cfg.Clock.StartupTimeout + startSlack))
	d.beside("the reports to systemd", func(ctx context.Context) error {
		for d.Notify.send != nil && d.Clock.Sleep(ctx, statusInterval) == nil {
			d.Notify.tellStatus(d.statusLine())
		}
		return nil
	}, func(ctx context.Context) error {
		for every := d.Notify.watchdog / watchdogRounds; every > 0 && d.Clock.Sleep(ctx, every) == nil; {
			d.Notify.watch(ctx, every, d.stuck)
		}
		return nil
	})
}

// issues tells that a life has begun, or that none will: the daemon is ready. The database isn't
// waited for: what it has to give is served once it is there, and snowflake IDs don't need it.
func (d *daemon) issues() {
	d.Notify.tell(sd.SdNotifyReady)
}

// hold returns when the daemon is ready, or holdBack is over. Clients that connect while
// leafd is restarted wait in systemd's socket; accepted any earlier, they would get an
// error. A start that has to wait for longer answers with that error.
func (d *daemon) hold(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, holdBack)
	defer cancel()
	for !d.isReady() && d.Clock.Sleep(ctx, time.Millisecond) == nil {
	}
}

// isReady reports whether GET /readyz answers 200.
func (d *daemon) isReady() bool { return d.server.Snapshot().IsReady() }

// workerState returns the worker's state in metrics, as in GET /api/worker.
func (d *daemon) workerState() string { return condition.WorkerState(d.server.Snapshot().Conditions) }

// statusLine returns the daemon's state in one line, as `systemctl status` shows it: the worst that is wrong,
// what serves, and how much more is wrong.
func (d *daemon) statusLine() string {
	line, now := "ready", d.server.Snapshot()
	all := slices.DeleteFunc(slices.Clone(now.Conditions), func(c condition.Condition) bool { return c.Event })
	if len(all) > 0 {
		worst := all[0]
		line = "degraded: "
		if !now.IsReady() {
			line = "NOT READY: "
		}
		line += worst.Headline
		if worst.Subject != "" {
			line += " (" + worst.Subject + ")"
		}
		if worst.Cause != "" {
			line += ": " + worst.Cause
		}
	}
	if w := now.Worker; w != nil {
		line += fmt.Sprintf("; worker %d (%s)", w.ID, w.Node)
	}
	if segments := d.segments.Load(); segments != nil {
		line += fmt.Sprintf("; tags in %s: %d", d.cfg.Store(true).Kind(), segments.Len())
	}
	if more := len(all) - 1; more > 0 {
		line += fmt.Sprintf("; %d more: see /readyz", more)
	}
	return line
}

// stuck returns an error for each part that only a restart cures. ZooKeeper, the database, the
// disk, the peers and the clock being gone or wrong, overload, and a want of file descriptors
// are no such thing.
func (d *daemon) stuck(ctx context.Context) error {
	var config *tls.Config
	if d.certificates != nil {
		config = d.certificates.Client(false)
	}
	all := []error{d.alarms.Stuck(), askSelf(ctx, d.opened[0].Addr(), config)}
	if l := d.life.Load(); l != nil {
		all = append(all, l.worker.Stuck())
		_ = l.ids.Check() // that it returns is the point
		_ = l.worker.Check()
	}
	return errors.Join(all...)
}

// askSelf requires that a request to the public listener is answered. Any answer
// passes, "too many connections" too: the process reads and writes. Silence fails, and
// so does a port that no process listens on any more.
//
// config is nil where the listener has no TLS. Where it has, the alert that refuses
// a client without a certificate is an answer like any other.
func askSelf(ctx context.Context, addr net.Addr, config *tls.Config) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, addr.Network(), addr.String())
	if err != nil {
		return silent(addr, err)
	}
	defer conn.Close() //nolint:errcheck // the answer is what counts
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // it fails for a closed one alone
	if config != nil {
		conn = tls.Client(conn, config)
	}
	if _, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	return silent(addr, err)
}

// silent returns nil unless err is a time-out, or no process listens there: a connection that was
// closed was accepted and closed by a process that works, and one that can't be made for want of
// descriptors, ports or rights is no fault of this process.
func silent(addr net.Addr, err error) error {
	for _, fault := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded, syscall.ECONNREFUSED, syscall.ENOENT} {
		if errors.Is(err, fault) {
			return fmt.Errorf("no answer at %s: %w", addr, err)
		}
	}
	return nil
}
