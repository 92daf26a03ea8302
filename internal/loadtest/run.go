package loadtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// dialsAtOnce is how many connections are made at a time before the start: more
// would overflow a listener's queue.
const dialsAtOnce = 64

// run is one load.
type run struct {
	cfg      Config
	targets  []target
	requests [][][]byte // by target and key
	schedule *schedule
	rec      *recorder

	taking sync.Mutex
	seen   []*idSet // taking protects; none without Config.Check
}

// Run puts the load on and returns its figures, also when ctx ended it early. It returns
// ErrConfig, or ErrUnreachable where no client could connect.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, schedule: newSchedule(cfg), rec: newRecorder(len(cfg.URLs))}
	for _, u := range cfg.URLs {
		t, err := parseTarget(u, cfg.TLS)
		if err != nil {
			return nil, err
		}
		var texts [][]byte
		for _, key := range cfg.Keys {
			texts = append(texts, t.request(cfg.Mode, key, cfg.Batch))
		}
		r.targets = append(r.targets, t)
		r.requests = append(r.requests, texts)
	}
	if cfg.Check {
		sets := cfg.set(len(cfg.Keys)-1) + 1
		for range sets {
			r.seen = append(r.seen, newIDSet(maxKept/sets))
		}
	}
	clients := make([]*client, cfg.Clients)
	for i := range clients {
		clients[i] = &client{run: r, number: i, target: i % len(r.targets)}
	}
	if err := r.connectAll(ctx, clients); err != nil {
		return nil, err
	}
	begun := time.Now()
	r.load(ctx, clients)
	return r.result(begun), nil
}

// load has the clients send requests until that is over.
func (r *run) load(ctx context.Context, clients []*client) {
	r.schedule = newSchedule(r.cfg)
	unwatch := context.AfterFunc(ctx, r.schedule.end)
	var working, looking sync.WaitGroup
	for _, c := range clients {
		if c.conn != nil {
			c.conn.used = 0
		}
		working.Go(func() { c.loop(ctx) })
	}
	done := make(chan struct{})
	looking.Go(func() { r.watch(done) })
	working.Wait()
	close(done)
	looking.Wait()
	if !unwatch() {
		// It was ended, which clients see sooner than that function may run.
		r.schedule.end()
	}
}

// connectAll connects the clients before the start, so that no latency has the
// making of a connection in it.
func (r *run) connectAll(ctx context.Context, clients []*client) error {
	var dials errgroup.Group
	dials.SetLimit(dialsAtOnce)
	errs := make([]error, len(clients))
	for i, c := range clients {
		dials.Go(func() error {
			errs[i] = c.connect(ctx)
			return nil
		})
	}
	_ = dials.Wait() // errs has them
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w to %s: %w", ErrUnreachable, r.cfg.URLs[0], errs[0])
}

// take notes the IDs of an answer.
func (r *run) take(set int, p Place, ids []int64) {
	if r.seen == nil && r.cfg.Take == nil {
		return
	}
	r.taking.Lock()
	defer r.taking.Unlock()
	if r.seen != nil {
		r.seen[set].add(p, ids)
	}
	if r.cfg.Take != nil {
		r.cfg.Take(set, p, ids)
	}
}
