package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/unique"
)

// timeout is how long an answer may take.
const timeout = 10 * time.Second

// load asks the daemon for the streams of a mix at once, and keeps every ID that
// came, over all its runs, to be compared in the end.
type load struct {
	o        options
	url      string
	journals map[string]*unique.Journal // by set
	sets     []string                   // in the order of the mix
	clients  int                        // numbers given out
	results  []*loadtest.Result         // of all runs

	mu       sync.Mutex
	progress map[string]loadtest.Progress // mu protects; by stream
}

// newLoad makes a journal for each set of IDs of a mix.
func newLoad(o options, url string, streams []stream) (*load, error) {
	l := &load{o: o, url: url, journals: map[string]*unique.Journal{}}
	for _, s := range streams {
		for _, set := range s.sets() {
			if l.journals[set] != nil {
				continue
			}
			j, err := unique.New(unique.Options{Dir: o.dir, Memory: unique.DefaultMemory})
			if err != nil {
				return nil, errors.Join(err, l.close())
			}
			l.journals[set] = j
			l.sets = append(l.sets, set)
		}
	}
	return l, nil
}

// close gives the journals' room back.
func (l *load) close() error {
	var errs []error
	for _, j := range l.journals {
		errs = append(errs, j.Close())
	}
	return errors.Join(errs...)
}

// run puts the streams on, all together rate requests a second, and 0 for a closed
// loop. It returns a result for each of them.
func (l *load) run(ctx context.Context, streams []stream, rate float64, d time.Duration) ([]*loadtest.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broken := func(error) { cancel() } // the check says why
	l.mu.Lock()
	l.progress = map[string]loadtest.Progress{}
	l.mu.Unlock()
	results := make([]*loadtest.Result, len(streams))
	errs := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, s := range streams {
		cfg := l.config(s, rate, d, broken)
		wg.Go(func() {
			if results[i], errs[i] = loadtest.Run(ctx, cfg); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", s.name, errs[i])
				cancel()
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	l.results = append(l.results, results...)
	return results, nil
}

func (l *load) config(s stream, rate float64, d time.Duration, broken func(error)) loadtest.Config {
	cfg := loadtest.Config{
		URLs: []string{l.url}, Mode: s.mode, Keys: s.keys, Batch: s.batch, Rate: rate * s.share,
		Clients: s.clients(l.o.clients), FirstClient: l.clients, Duration: d, Timeout: timeout, Growing: true,
		Every: l.o.every(), Progress: func(p loadtest.Progress) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.progress[s.name] = p
		},
	}
	l.clients += cfg.Clients
	var journals []*unique.Journal
	for _, set := range s.sets() {
		journals = append(journals, l.journals[set])
	}
	cfg.Take = unique.Taker(broken, journals...)
	return cfg
}

// look is what all streams did in the last interval that each has told of.
type look struct {
	perSecond float64
	failed    int64         // since the start
	worst     time.Duration // the streams' largest 99.9th percentile of the interval
	slowest   time.Duration // request of the interval
}

func (l *load) look() look {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all look
	for _, p := range l.progress {
		all.perSecond += float64(p.Since.Answered) / p.Interval.Seconds()
		all.failed += p.Total.Failed
		all.worst = max(all.worst, p.Latency.P999)
		all.slowest = max(all.slowest, p.Latency.Max)
	}
	return all
}

// setVerdict is what is known of the IDs of a set.
type setVerdict struct {
	name string
	unique.Report
}

// check compares the IDs of each set.
func (l *load) check(ctx context.Context) ([]setVerdict, error) {
	var list []setVerdict
	for _, set := range l.sets {
		report, err := l.journals[set].Check(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("whether an ID came twice is not known: %w", err)
		}
		// Its room on disk is the next one's.
		if err := l.journals[set].Close(); err != nil {
			return nil, err
		}
		list = append(list, setVerdict{set, report})
	}
	return list, nil
}
