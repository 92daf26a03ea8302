package client

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// slowestLend is how long an answer may take: the borrower's time is as much behind the daemon's, at most.
	slowestLend = time.Second
	// lendRest is how much longer than a daemon that failed the borrower is left alone after a failure.
	lendRest = 12

	snowflakePath, lendPath = "/api/snowflake/get/", "/api/snowflake/lend/"
)

// borrower has the slice of a client. It keeps, beside the rules of slice:
//
//	B5  A slice is taken from an answer that came within slowestLend, once: its name is drawn for it, and another one is drawn
//	    then. A request that is repeated has the name of the one before, for which a daemon has the same slice.
//	B6  While there is a slice, Next takes no range. One that follows on another begins after it, where its time is less than
//	    slowestLend behind; then the one before is given back.
//	B7  No failure to borrow reaches a caller: without a slice there are ranges. It is asked for again at half of a slice's
//	    time, or after a rest that doubles.
type borrower struct {
	client   *Client
	lent     atomic.Pointer[slice] // never nil; changed under mu
	nap      func(time.Duration)   // tests put their own here
	turn     chan struct{}         // one token: of the call that waits for the next millisecond, the others wait for it in turn
	requests requests              // of run
	name     string                // of the next slice; run's

	mu   sync.Mutex
	path string // mu protects; that slices are asked for at, of the first source; empty: run hasn't begun
}

func newBorrower(c *Client) *borrower {
	b := &borrower{client: c, nap: nap, turn: make(chan struct{}, 1), name: rand.Text()}
	b.lent.Store(new(slice))
	b.requests = requests{until: make(map[*daemon]time.Duration), lends: true}
	return b
}

// next returns an ID, or a negative number where there is no slice. It waits for the next millisecond, where the
// slice's numbers of this one are used up, as long as ctx lasts.
func (b *borrower) next(ctx context.Context, s *Source) (int64, error) {
	if id, _ := b.lent.Load().take(b.client.mono()); id >= 0 {
		return id, nil
	}
	id, wait := b.take(s)
	if wait == 0 {
		return id, nil
	}
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return -1, ctx.Err()
	}
	for {
		if id, wait = b.take(s); wait == 0 {
			return id, nil
		}
		b.nap(min(wait, time.Millisecond)) // after a slice that followed it may be longer
		if ctx.Err() != nil {
			return -1, ctx.Err()
		}
	}
}

// take takes an ID of the slice that there is, B6: never of one that another is following on.
func (b *borrower) take(s *Source) (id int64, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path == "" {
		b.path = lendPath + strings.TrimPrefix(s.path, snowflakePath)
		b.client.goRun(b.run)
	}
	return b.lent.Load().take(b.client.mono())
}

// run borrows slices until ctx is done.
func (b *borrower) run(ctx context.Context) {
	failures := 0
	for wait := time.Duration(0); sleep(ctx, wait); {
		l, err := b.ask(ctx)
		if err != nil {
			wait = lendRest * pause(failures)
			failures++
			continue
		}
		failures, wait = 0, max(l.left(b.client.mono())/2, lendRest*firstPause)
		if sleep(ctx, l.begins-b.client.mono()) {
			b.follow(ctx, l)
		}
	}
}

// ask asks the daemons for a slice, B5.
func (b *borrower) ask(ctx context.Context) (l *slice, err error) {
	err = b.requests.fetch(ctx, b.client, func(d *daemon) error {
		asked := b.client.mono()
		body, err := d.ask(ctx, http.MethodPost, b.path+"?slice="+b.name, "", 1<<16)
		if err != nil {
			return err
		}
		came := b.client.mono()
		if came-asked > slowestLend {
			return fmt.Errorf("%w: %s took %s to lend a slice", ErrBadResponse, d.name, came-asked)
		}
		if l, err = parseSlice(body, b.name, came, b.client.cfg.Lease); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		l.daemon, b.name = d, rand.Text()
		return nil
	})
	return l, err
}

// follow has IDs made of l from now on, B6, and gives the slice before back, where its daemon can be told.
func (b *borrower) follow(ctx context.Context, l *slice) {
	b.mu.Lock()
	before := b.lent.Load()
	used := before.end()
	if ahead := time.Duration(used-l.from)*time.Millisecond + l.begins - b.client.mono(); ahead < slowestLend {
		l.next.Store(max(0, (used+1-l.from)*l.size))
	}
	b.lent.Store(l)
	b.mu.Unlock()
	if before.size == 0 {
		return
	}
	_, err := before.daemon.ask(ctx, http.MethodDelete, lendPath+before.name+"?used="+strconv.FormatInt(used, 10), "", 1<<16)
	if err != nil && ctx.Err() == nil {
		b.client.failed(err)
	}
}
