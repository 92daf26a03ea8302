package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
)

// figures are what a soak showed.
type figures struct {
	plan     plan
	rate     float64 // requests a second that were due
	capacity float64 // requests a second of the closed loop before; 0: there was none
	turns    turns   // of the daemon and of a server that only answers, after the load
	begun    time.Time
	streams  []stream
	results  []*loadtest.Result // of the streams
	errors   int64              // requests of all runs that failed
	failures []loadtest.Failure // of all runs
	samples  []sample
	downAt   time.Duration // when the database was stopped
	upAt     time.Duration // when it was back
	atDown   sample        // before the outage
	sets     []setVerdict  // of the IDs
	load1    string        // load average of the machine before
	hostTook string        // from the CPUs while the load ran
}

// soak runs it all. Even if it fails, all that was started is stopped: the load
// first, then the daemon, then the database.
func soak(ctx context.Context, o options, progress io.Writer) (_ *figures, err error) {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(progress, "soak: "+format+"\n", args...) // a closed terminal is no reason to stop
	}
	if _, err := exec.LookPath(o.leafd); err != nil {
		return nil, fmt.Errorf("the daemon's program: %w; make build makes it", err)
	}
	f := &figures{plan: newPlan(o), load1: loadAverage()}
	dir, err := os.MkdirTemp("", "leafd-soak-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := startDatabase(o.sql, f.plan.steps)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.stop()) }()
	d, err := startDaemon(ctx, o.leafd, dir, db.dsn)
	if err != nil {
		return nil, err
	}
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		return d.stop()
	}
	defer func() { err = errors.Join(err, stop()) }()
	say("the daemon is process %d at %s, its database at %s", d.Pid(), d.URL, db.server.Addr())

	l, err := newLoad(o, d.URL, mix(1, o.outage))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	if f.rate = o.rate; f.rate == 0 {
		if err := f.measureCapacity(ctx, o, l, say); err != nil {
			return nil, err
		}
	}
	if err := f.underLoad(ctx, o, d, db, l, say); err != nil {
		return nil, err
	}
	if err := f.takeTurns(ctx, o, l, say); err != nil {
		return nil, err
	}
	if err := stop(); err != nil { // the check is to have the machine for itself
		return nil, err
	}
	if f.sets, err = l.check(ctx); err != nil {
		return nil, err
	}
	for _, r := range l.results {
		f.errors += r.Failed
		f.failures = append(f.failures, r.Failures...)
	}
	return f, nil
}

// measureCapacity sets the rate to half of what a closed loop reaches, with single
// IDs: in one, batches would be asked for as often as IDs are.
func (f *figures) measureCapacity(ctx context.Context, o options, l *load, say func(string, ...any)) error {
	d := min(10*time.Second, o.duration/4)
	say("measuring the capacity for %s", d)
	results, err := l.run(ctx, singles(mix(1, o.outage)), 0, d)
	if err != nil {
		return err
	}
	for _, r := range results {
		f.capacity += float64(r.Answered) / r.Elapsed.Seconds()
	}
	f.rate = f.capacity / 2
	say("%.0f requests/s in a closed loop", f.capacity)
	return nil
}

// underLoad puts the load on, takes samples, and has the database away meanwhile.
func (f *figures) underLoad(ctx context.Context, o options, d *daemon, db *database, l *load, say func(string, ...any)) error {
	f.streams = mix(f.rate, o.outage)
	say("%.0f requests/s for %s; the database is away from %s on, for %s at least", f.rate, o.duration, f.plan.from.Round(time.Millisecond), o.outage)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := watchHost("/proc")
	f.begun = h.begun
	loaded := make(chan error, 1)
	go func() {
		var err error
		f.results, err = l.run(ctx, f.streams, f.rate, o.duration)
		loaded <- err
	}()
	outage := make(chan error, 1)
	go func() { outage <- f.takeAway(ctx, o, d, db) }()

	err := f.sampling(ctx, o, d, l, h, loaded, say)
	f.hostTook = h.says()
	if err != nil {
		cancel()
		err = errors.Join(err, <-loaded)
	}
	return errors.Join(err, <-outage)
}

// takeAway has the database away at the time planned, until the daemon has felt it:
// the ranges of a long soak outlast the outage, and only when one is a tenth used is
// the next one wanted.
func (f *figures) takeAway(ctx context.Context, o options, d *daemon, db *database) error {
	timer := time.NewTimer(f.plan.from)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
	}
	var err error
	if f.atDown, err = d.scrape(ctx, time.Since(f.begun)); err != nil {
		return err
	}
	f.downAt = time.Since(f.begun)
	felt := func() bool {
		now, err := d.scrape(ctx, time.Since(f.begun))
		return err == nil && now.failed > f.atDown.failed
	}
	err = db.away(ctx, absence{least: o.outage, most: o.longestOutage(), felt: felt}, f.plan.kill)
	f.upAt = time.Since(f.begun)
	return err
}

// sampling takes samples until the load has ended, and returns its error.
func (f *figures) sampling(ctx context.Context, o options, d *daemon, l *load, h host, loaded <-chan error, say func(string, ...any)) error {
	time.Sleep(min(time.Second, o.every()/10)) // each sample finds what the streams told just before
	ticker := time.NewTicker(o.every())
	defer ticker.Stop()
	told := time.Duration(0)
	for {
		select {
		case err := <-loaded:
			return err
		case <-d.Done():
			return d.Failure()
		case <-ticker.C:
		}
		s, err := d.scrape(ctx, time.Since(f.begun))
		if err != nil {
			return err
		}
		s.look, s.stolen = l.look(), h.took()
		f.samples = append(f.samples, s)
		if s.at-told < min(10*time.Second, o.duration/5) {
			continue
		}
		told = s.at
		say("%s  %.0f requests/s  p99.9 %s  max %s  failed %d  RSS %.1f MB  heap %.1f MB  goroutines %.0f  descriptors %.0f  collections %.0f  fetches %.0f (%.0f failed)",
			s.at.Round(time.Second), s.look.perSecond, short(s.look.worst), short(s.look.slowest), s.look.failed,
			s.rss/1e6, s.heap/1e6, s.goroutines, s.fds, s.pauses, s.fetches, s.failed)
	}
}

// loadAverage is how busy the machine was in the last minute, "unknown" elsewhere
// than on Linux.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	var minute string
	if err == nil {
		_, err = fmt.Sscan(string(text), &minute)
	}
	if err != nil {
		return "unknown"
	}
	return minute
}
