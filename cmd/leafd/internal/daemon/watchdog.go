package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// selfCheck is an action that only a working process completes.
type selfCheck struct {
	name string
	// run returns nil when the part works, and an error when it is stuck. It ought
	// to return by the end of ctx; one that doesn't is taken for stuck.
	run func(ctx context.Context) error
}

// watchdog tells systemd that the daemon works, for as long as it does: a process
// that is stuck is ended with a dump of its goroutines and started again. It keeps:
//
//	daemon.D1  WATCHDOG=1 is told only after every check has passed, in that very round.
//	    No timer feeds.
//	daemon.D2  A check that doesn't return within its round has failed, and fails until it
//	    has returned: a stuck one costs one goroutine, however long it takes.
//	daemon.D3  A check fails only for what a restart cures. ZooKeeper, the database, the
//	    disk, the peers and the clock being gone or wrong, overload, and a want of
//	    file descriptors don't fail any.
//	One failed round ends nothing: there are three in systemd's time.
//	daemon.D5  While the daemon stops, every round feeds: its parts end one after the other,
//	    and systemd's time for a stop bounds that.
type watchdog struct {
	notify *Notifier      // immutable
	log    zerolog.Logger // immutable
	every  time.Duration  // immutable; a third of systemd's time

	mu       sync.Mutex
	checks   []selfCheck // mu protects
	stopping bool        // mu protects
	failing  string      // mu protects; what the last round said; "" when all passed

	busy map[string]chan struct{} // of run alone (daemon.D2); closed when the check has returned
}

// watchdogRounds is how many rounds there are in systemd's time.
const watchdogRounds = 3

func newWatchdog(n *Notifier, log zerolog.Logger, within time.Duration) *watchdog {
	return &watchdog{notify: n, log: log, every: within / watchdogRounds, busy: map[string]chan struct{}{}}
}

// add makes a check part of every round from the next one on, in the place of one of
// the same name.
func (w *watchdog) add(name string, run func(ctx context.Context) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	others := slices.DeleteFunc(w.checks, func(c selfCheck) bool { return c.name == name })
	w.checks = append(others, selfCheck{name: name, run: run})
}

// stop ends the checking (daemon.D5).
func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
}

// ends tells whether the checking has ended.
func (w *watchdog) ends() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopping
}

// stuck returns what the last round found, "" when nothing is.
func (w *watchdog) stuck() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failing
}

// run makes rounds until ctx is done. It does nothing where systemd doesn't watch.
func (w *watchdog) run(ctx context.Context) {
	if w.every <= 0 {
		return
	}
	next := time.NewTicker(w.every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			w.round(ctx)
		}
	}
}

// round makes all checks at once, and feeds when all have passed (daemon.D1).
func (w *watchdog) round(ctx context.Context) {
	w.mu.Lock()
	checks, stopping := slices.Clone(w.checks), w.stopping
	w.mu.Unlock()
	if stopping { // daemon.D5
		w.notify.Watchdog()
		return
	}
	bounded, cancel := context.WithTimeout(ctx, w.every)
	defer cancel()
	results := make([]error, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		if done := w.busy[c.name]; done != nil && !closed(done) {
			results[i] = fmt.Errorf("%s: no answer yet", c.name) // daemon.D2
			continue
		}
		done, outcome := make(chan struct{}), make(chan error, 1)
		w.busy[c.name] = done
		go func() {
			err := c.run(bounded)
			close(done) // first: a round that follows at once has to find it
			outcome <- err
		}()
		all.Go(func() {
			select {
			case err := <-outcome:
				if err != nil {
					results[i] = fmt.Errorf("%s: %w", c.name, err)
				}
			case <-bounded.Done():
				results[i] = fmt.Errorf("%s: no answer within %s", c.name, w.every)
			}
		})
	}
	all.Wait()
	w.judge(ctx, results)
}

func (w *watchdog) judge(ctx context.Context, results []error) {
	var failed []string
	for _, err := range results {
		if err != nil {
			failed = append(failed, err.Error())
		}
	}
	now := strings.Join(failed, "; ")
	if ctx.Err() != nil {
		return // ended in the middle of a round: its result means nothing
	}
	w.mu.Lock()
	before := w.failing
	w.failing = now
	w.mu.Unlock()
	if now == "" {
		w.notify.Watchdog()
	} else {
		w.notify.Status("STUCK: " + now)
	}
	if (now == "") == (before == "") {
		return
	}
	// In a goroutine of its own: the part that is stuck may be the log.
	go func() {
		if now == "" {
			w.log.Warn().Str("was", before).Msg("watchdog: every part works again")
			return
		}
		w.log.Error().Str("stuck", now).Dur("ends_in_ms", (watchdogRounds-1)*w.every).
			Msg("watchdog: a part of leafd is stuck: unless that ends, systemd restarts it")
	}()
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
