package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/proctest"
)

// slower is how many times as long 99.9 % of the requests may take as at a server that
// only answers.
const slower = 1.2

// turns are the p99.9s of the daemon and of a server that only answers, which got the same
// load in turn, and so the same of what the machine, its network and the load itself add.
type turns struct {
	each        time.Duration
	leafd, bare []time.Duration
}

// takeTurns puts the single requests of the mix, at the rate of the soak, on both.
func (f *figures) takeTurns(ctx context.Context, o options, l *load, say func(string, ...any)) (err error) {
	if o.bare == "" {
		return nil
	}
	address, err := proctest.FreeAddress()
	if err != nil {
		return err
	}
	server, err := proctest.StartDaemon(proctest.Config{Command: []string{o.bare, "-addr", address}, Address: address})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.End(syscall.SIGKILL)) }()
	listening, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := server.AwaitListening(listening); err != nil {
		return err
	}
	f.turns.each = min(time.Minute, o.duration/12)
	say("the same rate on a server that only answers and on the daemon, %d turns of %s each", o.turns, f.turns.each)
	for i := range 2 * o.turns {
		url, to := server.URL, &f.turns.bare
		if (i%4 == 1) || (i%4 == 2) { // bare, leafd, leafd, bare: neither is always the first
			url, to = l.url, &f.turns.leafd
		}
		results, err := f.turn(ctx, o, url)
		if err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		if url == l.url {
			l.results = append(l.results, results...)
		}
		*to = append(*to, together(results).P999)
	}
	return nil
}

// turn is one server's.
func (f *figures) turn(ctx context.Context, o options, url string) ([]*loadtest.Result, error) {
	streams := singles(mix(f.rate, o.outage))
	results := make([]*loadtest.Result, len(streams))
	errs := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() {
			results[i], errs[i] = loadtest.Run(ctx, loadtest.Config{
				URLs: []string{url}, Mode: s.mode, Keys: s.keys, Batch: 1, Rate: f.rate * s.share,
				Clients: s.clients(o.clients), Duration: f.turns.each, Timeout: timeout,
			})
		})
	}
	wg.Wait()
	return results, errors.Join(errs...)
}

// judge compares the medians of the turns: what the host takes in one of them decides
// nothing. Where the bare server keeps least, so has leafd to; elsewhere it may take slower
// times as long.
func (t turns) judge(least time.Duration) (kept bool, says string) {
	if len(t.bare) == 0 || len(t.bare) != len(t.leafd) {
		return false, "no turns were taken"
	}
	leafd, bare := median(t.leafd), median(t.bare)
	allowed := least
	if bare > least {
		allowed = time.Duration(slower * float64(bare))
	}
	return leafd > 0 && leafd <= allowed, fmt.Sprintf("%s, %.2f times the %s of a server that only answers, at most %s; medians of turns of %s: leafd %s, the other %s",
		short(leafd), float64(leafd)/float64(bare), short(bare), short(allowed), short(t.each), list(t.leafd), list(t.bare))
}

// median returns the middle one, of an even number the upper one.
func median(of []time.Duration) time.Duration { return slices.Sorted(slices.Values(of))[len(of)/2] }

func list(of []time.Duration) string {
	var words []string
	for _, d := range of {
		words = append(words, short(d))
	}
	return strings.Join(words, " ")
}
