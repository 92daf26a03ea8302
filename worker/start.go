package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
)

// Defaults of Config; DESIGN 4 has the reasons.
const (
	DefaultReportInterval = 3 * time.Second
	DefaultCeilingLead    = 6 * time.Second
	DefaultMaxForwardStep = 10 * time.Second
)

// Config is what a Worker needs. Clock, Cache, Registry and Layout must be set.
type Config struct {
	Node     string // identity
	Layout   string // as snowflake.Layout prints it
	Epoch    clock.Millis
	Clock    clock.Clock
	Cache    Cache
	Registry Registry
	// ReportInterval is the time between two reports.
	ReportInterval time.Duration
	// CeilingLead is how far the ceiling lies ahead of the clock when it is
	// recorded: longer than ReportInterval, so that one report may fail.
	CeilingLead time.Duration
	// MaxForwardStep is how far the wall clock may be ahead of what the
	// monotonic and boot-time clocks allow between two reports.
	MaxForwardStep time.Duration
	// MaxWait bounds the wait for a recorded ceiling at the start.
	MaxWait time.Duration
	// Notify is told of each change of state, one call at a time; nil for none.
	Notify func(Event)
}

// Validate names what can't work, field and value.
func (c Config) Validate() error {
	switch {
	case c.Clock == nil || c.Cache == nil || c.Registry == nil || c.Layout == "":
		return errors.New("worker: Config needs Clock, Cache, Registry and Layout")
	case c.ReportInterval <= 0:
		return fmt.Errorf("worker: report interval %s: want more than 0", c.ReportInterval)
	case c.CeilingLead <= c.ReportInterval:
		return fmt.Errorf("worker: ceiling lead %s: want more than the report interval %s, or issuing stops between two reports", c.CeilingLead, c.ReportInterval)
	case c.MaxForwardStep < time.Second:
		return fmt.Errorf("worker: max forward step %s: want at least 1s", c.MaxForwardStep)
	}
	return nil
}

// Start claims the worker ID, passes the clock guards and records the first
// ceiling. Nothing is written before the guards have passed. It keeps:
//
//	W1  Start returns only when the clock has passed the ceiling of every
//	    earlier life, local or in the registry: no ID of theirs can repeat.
//	W2  A record that can't be read, or isn't ours, ends the start. Only a
//	    record that never was is taken as "nothing issued yet".
//	W3  The guards refuse with ErrClockRefused; a registry's failure is never
//	    taken for that, nor the other way round.
//
// It returns ErrClockRefused, ErrForeign, ErrDamaged, or what Cache and Registry
// return.
func Start(ctx context.Context, cfg Config) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := newWorker(cfg)
	recorded, err := cfg.Cache.Load()
	switch {
	case errors.Is(err, ErrNoRecord):
		w.notify(Event{Kind: EventFirstStart})
	case err != nil:
		return nil, err // W2
	default:
		if err := w.checkOurs(recorded); err != nil {
			return nil, err
		}
		if err := w.checkClock(recorded); err != nil {
			return nil, err
		}
	}
	self := Record{Node: cfg.Node, Layout: cfg.Layout, Epoch: cfg.Epoch, Cluster: recorded.Cluster, Owner: uuid.NewString(), Peers: recorded.Peers}
	claimed, err := cfg.Registry.Claim(ctx, self)
	if err != nil {
		return nil, err
	}
	if recorded.Node != "" && recorded.WorkerID != claimed.WorkerID {
		return nil, fmt.Errorf("%w: it is of worker %d, and this start is worker %d: give worker %d back, or take another data folder",
			ErrForeign, recorded.WorkerID, claimed.WorkerID, recorded.WorkerID)
	}
	self.WorkerID, self.Cluster = claimed.WorkerID, claimed.Cluster
	self.Timestamp = max(recorded.Timestamp, claimed.Timestamp)
	self.Ceiling = max(recorded.Ceiling, claimed.Ceiling)
	if err := w.passGuards(ctx, self); err != nil {
		return nil, errors.Join(err, cfg.Registry.Close())
	}
	w.floor = max(self.Ceiling, self.Timestamp)
	w.record = self
	w.anchor = cfg.Clock.Read()
	if err := w.extend(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the first ceiling could not be recorded: %w", err), cfg.Registry.Close())
	}
	return w, nil
}

// checkOurs returns ErrForeign for a record of another layout: IDs of two
// layouts can be equal whatever their times.
func (w *Worker) checkOurs(r Record) error {
	if r.Layout != w.cfg.Layout || r.Epoch != w.cfg.Epoch {
		return fmt.Errorf("%w: it is of layout %s with epoch %d, and this start has %s with epoch %d: "+
			"start with the recorded ones, or take another data folder and a worker ID that never issued under them",
			ErrForeign, r.Layout, r.Epoch, w.cfg.Layout, w.cfg.Epoch)
	}
	return nil
}

// checkClock refuses a clock behind the one recorded.
func (w *Worker) checkClock(r Record) error {
	now := w.cfg.Clock.Read().Wall()
	if now < r.Timestamp {
		return fmt.Errorf("%w: it says %s, and worker %d reported %s before: it is %s behind. "+
			"Mend the clock (NTP), or wait until it has caught up, then start again",
			ErrClockRefused, now, r.WorkerID, r.Timestamp, r.Timestamp.Sub(now))
	}
	return nil
}

// passGuards waits until the clock has passed the recorded ceiling (W1).
func (w *Worker) passGuards(ctx context.Context, r Record) error {
	for {
		if err := w.checkClock(r); err != nil {
			return err
		}
		left := r.Ceiling.Sub(w.cfg.Clock.Read().Wall())
		if left <= 0 {
			return nil
		}
		if w.cfg.MaxWait > 0 && left > w.cfg.MaxWait {
			return fmt.Errorf("%w: the last stop was unclean and IDs may have been issued up to %s, %s from now; that is more than the %s a start may wait: start again later, or allow it more",
				ErrClockRefused, r.Ceiling, left, w.cfg.MaxWait)
		}
		w.notify(Event{Kind: EventWaiting, Wait: left, Until: r.Ceiling})
		if err := w.cfg.Clock.Sleep(ctx, left); err != nil {
			return fmt.Errorf("worker: stopped while waiting for the ceiling %s of the last run: %w", r.Ceiling, err)
		}
	}
}
