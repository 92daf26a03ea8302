package loadtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/leafd/leafd/internal/loadtest/unique"
)

// grace is how long answers may still come once the run was ended early.
const grace = time.Second

// dialsAtOnce is how many connections are made at a time before the start: more
// would overflow a listener's queue.
const dialsAtOnce = 64

// run is one load.
type run struct {
	cfg      Config
	targets  []target
	requests [][][]byte // by target and key
	schedule *schedule
	conns    connSet
	recs     []*recorder
	journals []*unique.Journal

	stop context.CancelFunc
	mu   sync.Mutex
	err  error // mu protects; what broke the check

	// Of the goroutine that looks.
	latency, service *hdrhistogram.Histogram
}

// Run puts the load on and returns its figures, also when ctx ended it early. The
// Result has to be closed. It returns ErrConfig, ErrUnreachable where no client
// could connect, or unique's errors where the check could not begin.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, latency: newHistogram(), service: newHistogram(), conns: connSet{conns: map[*conn]struct{}{}}}
	for _, u := range cfg.URLs {
		t, err := parseTarget(u, cfg.TLS)
		if err != nil {
			return nil, err
		}
		r.targets = append(r.targets, t)
	}
	if err := r.openJournals(); err != nil {
		return nil, err
	}
	result, err := r.load(ctx)
	if err != nil {
		return nil, errors.Join(err, closeAll(r.owned()))
	}
	return result, nil
}

// openJournals makes a journal for each set of IDs that must differ, where the
// caller has not.
func (r *run) openJournals() error {
	if r.cfg.Check == nil {
		r.journals = r.cfg.Journals
		return nil
	}
	// They are checked one after the other: each may use all of the memory.
	for range r.cfg.sets() {
		j, err := unique.New(*r.cfg.Check)
		if err != nil {
			return errors.Join(err, closeAll(r.journals))
		}
		r.journals = append(r.journals, j)
	}
	return nil
}

// owned are the journals that are the run's to check and to close.
func (r *run) owned() []*unique.Journal {
	if r.cfg.Check == nil {
		return nil
	}
	return r.journals
}

func closeAll(journals []*unique.Journal) error {
	var errs []error
	for _, j := range journals {
		errs = append(errs, j.Close())
	}
	return errors.Join(errs...)
}

// clients makes the clients, and the recorders that they share.
func (r *run) clients() []*client {
	for range min(r.cfg.Clients, 4*runtime.GOMAXPROCS(0)) {
		r.recs = append(r.recs, newRecorder(r.cfg.Rate > 0, len(r.targets), r.journals))
	}
	for _, t := range r.targets {
		var texts [][]byte
		for _, key := range r.cfg.Keys {
			texts = append(texts, t.request(r.cfg.Mode, key, r.cfg.Batch))
		}
		r.requests = append(r.requests, texts)
	}
	list := make([]*client, r.cfg.Clients)
	for i := range list {
		list[i] = &client{run: r, number: i, target: i % len(r.targets), rec: r.recs[i%len(r.recs)]}
	}
	return list
}

func (r *run) load(ctx context.Context) (*Result, error) {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.schedule = newSchedule(r.cfg)
	clients := r.clients()
	if err := r.connectAll(ctx, clients); err != nil {
		return nil, err
	}

	begun := time.Now()
	r.schedule = newSchedule(r.cfg)
	unwatch := context.AfterFunc(ctx, func() {
		r.schedule.end()
		r.conns.hurry(time.Now().Add(grace))
	})
	var working, beating sync.WaitGroup
	if tick := r.schedule.tick; tick != nil {
		beating.Go(func() { tick.run(ctx, r.schedule.clk, r.schedule.now) })
	}
	for _, c := range clients {
		if c.conn != nil {
			c.conn.used = 0
		}
		working.Go(func() { c.loop(ctx) })
	}
	done := make(chan struct{})
	looking := make(chan struct{})
	go func() {
		defer close(looking)
		r.watch(done)
	}()
	working.Wait()
	close(done)
	<-looking
	if !unwatch() {
		// It was ended, which clients see sooner than that function may run.
		r.schedule.end()
	}
	r.stop()
	beating.Wait()
	return r.result(begun), nil
}

// connectAll connects the clients before the start, so that no latency has the
// making of a connection in it.
func (r *run) connectAll(ctx context.Context, clients []*client) error {
	slots := make(chan struct{}, dialsAtOnce)
	var wg sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = c.connect(ctx)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			return nil
		}
		if i == len(errs)-1 {
			return fmt.Errorf("%w to %s: %w", ErrUnreachable, r.targets[clients[0].target].name, errs[0])
		}
	}
	return nil
}

// abort ends the run: the check that it was for has failed.
func (r *run) abort(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
		r.stop()
	}
}

func (r *run) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// connSet is the connections of a run.
type connSet struct {
	mu    sync.Mutex
	conns map[*conn]struct{} // mu protects
}

func (s *connSet) add(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
}

func (s *connSet) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// hurry lets every request in flight end by the given time. A client that sets
// its own deadline after that sees that the run was ended before it sends.
func (s *connSet) hurry(by time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.SetDeadline(by) // a closed connection needs none
	}
}
