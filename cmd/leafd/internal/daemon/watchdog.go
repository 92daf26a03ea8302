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
	// run returns nil when the part works, and an error when it is stuck. One that doesn't return is
	// taken for stuck.
	run func(ctx context.Context) error
}

// watchdog tells systemd that the daemon works, for as long as it does: a process
// that is stuck is ended with a dump of its goroutines and started again. It keeps:
//
//  1. WATCHDOG=1 is told only after every check has passed, in that very round.
//     No timer feeds.
//  2. A check that doesn't return holds up its round, and no other one begins.
//  3. A check fails only for what a restart cures. ZooKeeper, the database, the
//     disk, the peers and the clock being gone or wrong, overload, and a want of
//     file descriptors don't fail any.
//  4. One failed round ends nothing: there are three in systemd's time.
//  5. While the daemon stops, every round feeds: its parts end one after the other,
//     and systemd's time for a stop bounds that.
type watchdog struct {
	notify *Notifier      // immutable
	log    zerolog.Logger // immutable
	every  time.Duration  // immutable; a third of systemd's time

	mu       sync.Mutex
	checks   []selfCheck // mu protects
	stopping bool        // mu protects
	failing  string      // mu protects; what the last round said; "" when all passed
}

// watchdogRounds is how many rounds there are in systemd's time.
const watchdogRounds = 3

func newWatchdog(n *Notifier, log zerolog.Logger, within time.Duration) *watchdog {
	return &watchdog{notify: n, log: log, every: within / watchdogRounds}
}

// add makes a check part of every round from the next one on, in the place of one of
// the same name.
func (w *watchdog) add(name string, run func(ctx context.Context) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	others := slices.DeleteFunc(w.checks, func(c selfCheck) bool { return c.name == name })
	w.checks = append(others, selfCheck{name: name, run: run})
}

// stop ends the checking.
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

// round makes all checks, and feeds when all have passed.
func (w *watchdog) round(ctx context.Context) {
	w.mu.Lock()
	checks := slices.Clone(w.checks)
	if w.stopping {
		checks = nil
	}
	w.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, w.every)
	defer cancel()
	var failed []string
	for _, c := range checks {
		late := time.AfterFunc(w.every, func() { w.found(fmt.Sprintf("%s: no answer within %s", c.name, w.every)) })
		err := c.run(bounded)
		late.Stop()
		if err != nil {
			failed = append(failed, c.name+": "+err.Error())
		}
	}
	if ctx.Err() != nil {
		return // ended in the middle of a round: its result means nothing
	}
	w.found(strings.Join(failed, "; "))
	if len(failed) == 0 {
		w.notify.Watchdog()
	}
}

// found tells what is stuck, "" where nothing is: the status always, the log where that has changed.
func (w *watchdog) found(stuck string) {
	w.mu.Lock()
	before := w.failing
	w.failing = stuck
	w.mu.Unlock()
	if stuck != "" {
		w.notify.Status("STUCK: " + stuck)
	}
	// The log has goroutines of its own: it may be the part that is stuck.
	switch {
	case stuck != "" && before == "":
		go w.log.Error().Str("stuck", stuck).Dur("ends_in_ms", (watchdogRounds-1)*w.every).
			Msg("watchdog: a part of leafd is stuck: unless that ends, systemd restarts it")
	case stuck == "" && before != "":
		go w.log.Warn().Str("was", before).Msg("watchdog: every part works again")
	}
}
