package loadtest

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/clock"
)

// run is one load. Times are since its start.
type run struct {
	cfg      Config
	targets  []target
	requests [][][]byte // by target and key
	rec      *recorder
	started  time.Time
	turns    atomic.Int64 // given out, of an open loop
	ended    atomic.Int64 // when sending was ended early, in ns; 0: it wasn't
}

// Run puts the load on and returns its figures, also when ctx ended it early. It returns
// ErrConfig, or ErrUnreachable where no client could connect.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, rec: newRecorder(cfg)}
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
	clients := make([]*client, cfg.Clients)
	for i := range clients {
		clients[i] = &client{run: r, number: i, last: -1}
		if len(r.targets) > 0 {
			clients[i].target = i % len(r.targets)
			clients[i].conn = Conn{Dial: r.targets[clients[i].target].dial, Timeout: cfg.Timeout}
		}
	}
	if err := r.connect(ctx, clients); err != nil {
		return nil, err
	}
	r.load(ctx, clients)
	return r.result(), nil
}

// connect connects the clients before the start, so that no latency has the making of a connection in it; more than 64
// at a time would overflow a listener's queue.
func (r *run) connect(ctx context.Context, clients []*client) error {
	if len(r.targets) == 0 {
		return nil
	}
	var dials errgroup.Group
	dials.SetLimit(64)
	errs := make([]error, len(clients))
	for i, c := range clients {
		dials.Go(func() error { errs[i] = c.conn.open(ctx); return nil })
	}
	_ = dials.Wait() // errs has them
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w to %s: %w", ErrUnreachable, r.cfg.URLs[0], errs[0])
}

// load has the clients send requests until that is over.
func (r *run) load(ctx context.Context, clients []*client) {
	r.started = time.Now()
	end := func() { r.ended.CompareAndSwap(0, max(1, int64(r.now()))) }
	unwatch := context.AfterFunc(ctx, end)
	var working, looking sync.WaitGroup
	for _, c := range clients {
		working.Go(func() { c.loop(ctx) })
	}
	done := make(chan struct{})
	looking.Go(func() { r.watch(done) })
	working.Wait()
	close(done)
	looking.Wait()
	if !unwatch() {
		end() // which clients see sooner than that function may run
	}
}

func (r *run) now() time.Duration { return time.Since(r.started) }

// window returns how long requests were sent, once that is over.
func (r *run) window() time.Duration {
	if ended := time.Duration(r.ended.Load()); ended > 0 {
		return min(ended, r.cfg.Duration)
	}
	return r.cfg.Duration
}

// due returns how many turns there are up to now.
func (r *run) due(now time.Duration) int64 {
	return int64(math.Ceil(min(now, r.window()).Seconds() * r.cfg.Rate))
}

// next waits for a client's next turn, unless that has passed already. false: there are no more turns.
func (r *run) next(ctx context.Context) (turn time.Duration, ok bool) {
	if turn = r.now(); r.cfg.Rate > 0 {
		turn = time.Duration(float64(r.turns.Add(1)-1) / r.cfg.Rate * float64(time.Second))
	}
	if turn >= r.cfg.Duration {
		return 0, false
	}
	// To wake up costs more than tooEarly. The end of a long wait is slept by itself: the clock is exact for short ones only.
	const tooEarly, exact = 20 * time.Microsecond, 20 * time.Millisecond
	for wait := turn - r.now(); wait > tooEarly; wait = turn - r.now() {
		if wait >= exact {
			wait -= exact / 2
		}
		if clock.System().Sleep(ctx, wait) != nil {
			return 0, false
		}
	}
	return turn, r.now() < r.cfg.Duration && r.ended.Load() == 0
}

// client is one connection's worth of load.
type client struct {
	run    *run
	number int
	target int // index
	conn   Conn
	asked  int64 // requests so far
	last   int64 // the last ID
	failed int   // connections in a row that could not be made
}

// loop sends requests until there are no more turns.
func (c *client) loop(ctx context.Context) {
	defer c.conn.Close()
	for {
		turn, ok := c.run.next(ctx)
		if !ok {
			return
		}
		c.ask(ctx, turn)
		if c.failed > 0 && c.run.cfg.Rate == 0 {
			// Nothing else holds a closed loop back from asking a dead port a hundred thousand times a second.
			if clock.System().Sleep(ctx, min(10*time.Millisecond<<min(c.failed, 10), 500*time.Millisecond)) != nil {
				return
			}
		}
	}
}

// ask asks once, and records what became of it.
func (c *client) ask(ctx context.Context, turn time.Duration) {
	cfg, r := c.run.cfg, c.run.rec
	sent := c.run.now()
	key := 0
	if len(c.run.targets) > 0 { // each key of each daemon, where there are clients enough
		key = int((int64(c.number/len(c.run.targets)) + c.asked) % int64(len(cfg.Keys)))
	}
	a, err := c.send(ctx, key)
	done := c.run.now()
	if c.failed++; !IsDial(err) {
		c.failed = 0
	}
	if err != nil && ctx.Err() != nil {
		return // what the end of the run kept from an answer isn't recorded
	}
	before := int64(-1)
	if cfg.Growing && cfg.Mode == Snowflake {
		before = c.last
	}
	c.asked++

	r.mu.Lock()
	defer r.mu.Unlock()
	r.takeLocked(cfg, key, a.IDs)
	counts := &r.targets[c.target]
	asked, came := int64(cfg.Batch), int64(len(a.IDs))
	counts.Sent++
	counts.IDs += came
	switch {
	case err != nil:
		counts.Failed++
		r.failedLocked(0, CodeOf(err), err.Error())
	case cfg.Ask == nil && a.Status != http.StatusOK:
		counts.Failed++
		r.failedLocked(a.Status, a.Code, sample(a.Body))
	case cfg.Ask == nil && (!a.Good || came != asked):
		counts.Failed++
		r.wrong++
		r.failedLocked(a.Status, "wrong_answer", fmt.Sprintf("%d IDs for %d asked: %s", came, asked, sample(a.Body)))
	default:
		counts.Answered++
		r.answeredLocked(turn, sent, done)
	}
	c.last = r.growingLocked(a.IDs, before)
}

// send asks, with Config.Ask where there is one.
func (c *client) send(ctx context.Context, key int) (Answer, error) {
	if ask := c.run.cfg.Ask; ask != nil {
		within, cancel := context.WithTimeout(ctx, c.run.cfg.Timeout)
		defer cancel()
		return Answer{}, ask(within)
	}
	return c.conn.Ask(ctx, c.run.requests[c.target][key])
}
