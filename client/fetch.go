package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// run fetches batches as they are wanted, until ctx is done.
func (s *Source) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for n := s.wanted(); n > 0; n = s.wanted() {
			at := s.client.mono()
			ids, err := s.fetch(ctx, n)
			if ctx.Err() != nil {
				return // Close fails the waiters
			}
			if err == nil {
				s.put(ids, n, at)
				continue
			}
			if again := s.note(err, n); !again {
				break
			}
			if !s.waitForDaemon(ctx) {
				return
			}
		}
	}
}

// put queues a batch that was fetched.
func (s *Source) put(ids []run, n int, at time.Duration) {
	b := &batch{runs: ids, size: int64(n), mask: 1<<max(bits.Len(uint(n))-5, 0) - 1, at: at} // it is looked 16 to 32 times
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastErr = nil
	s.stats.Requests++
	s.stats.Fetched += b.size
	if s.closed {
		s.stats.Dropped += b.size
		return
	}
	s.queued = append(s.queued, b)
	s.serveLocked()
}

// note records that a request for n IDs failed, and reports whether to try again.
func (s *Source) note(err error, n int) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "bad_count" && n > 1 {
		s.limit = max(n/2, 1) // the daemons' --max-batch, or --max-range, is smaller
		return true
	}
	if s.lastErr == nil || !errors.Is(err, errNone) { // why they are left alone says more
		s.lastErr = err
	}
	if !isFinal(err) {
		return true
	}
	s.failLocked(err)
	return false
}

// waitForDaemon waits until a daemon may be asked again.
func (s *Source) waitForDaemon(ctx context.Context) bool {
	return sleep(ctx, s.requests.pause(s.client))
}

// sleep reports whether the time has passed; else ctx was done before.
func sleep(ctx context.Context, d time.Duration) bool {
	wait := time.NewTimer(d)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wait.C:
		return true
	}
}

// recent is how many responses back a repetition is noticed.
const recent = 1024

// requests asks the daemons on behalf of one source, or of the borrower. It belongs to the fetcher.
type requests struct {
	order  []*daemon                 // the first is the source's home
	until  map[*daemon]time.Duration // for this source it is left alone until then
	firsts []int64                   // of the last responses, at most recent
	lends  bool                      // for slices: a bad response doesn't count against a daemon
}

// update takes the daemons that there are now. Each is at a random place, so that as many sources are at home
// at each of them, and the others keep their order.
func (r *requests) update(daemons []*daemon) {
	r.order = slices.DeleteFunc(r.order, func(d *daemon) bool { return !slices.Contains(daemons, d) })
	maps.DeleteFunc(r.until, func(d *daemon, _ time.Duration) bool { return !slices.Contains(daemons, d) })
	for _, d := range daemons {
		if !slices.Contains(r.order, d) {
			r.order = slices.Insert(r.order, rand.IntN(len(r.order)+1), d) //nolint:gosec // no secret
		}
	}
}

// fetch asks the daemons by ask, one after the other in the source's order,
// those that are down last, each once. It returns the last one's error: a final one where
// no daemon did better.
func (r *requests) fetch(ctx context.Context, c *Client, ask func(*daemon) error) error {
	r.update(c.known(ctx))
	var final, failed error
	for _, wantDown := range []bool{false, true} {
		for _, d := range r.order {
			down, until := d.state()
			if now := c.mono(); down != wantDown || until > now || r.until[d] > now {
				continue
			}
			err := ask(d)
			if err == nil {
				r.until[d] = 0
				d.worked()
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.failed(err)
			var refused *Error
			switch {
			case r.lends && errors.Is(err, ErrBadResponse):
				failed = err
				r.until[d] = c.mono() + firstPause
			case !errors.As(err, &refused):
				failed = err
				d.broke()
			case refused.Final():
				final = err // another may know a tag that is new
				d.worked()
			default:
				failed = err
				d.worked()
				wait := max(refused.RetryAfter, firstPause)
				if c.isAlone() && refused.Status != http.StatusTooManyRequests {
					wait = firstPause
				}
				r.until[d] = c.mono() + wait
			}
		}
	}
	switch {
	case failed != nil:
		return failed
	case final != nil:
		return final
	}
	return errNone
}

// fetch asks the daemons for n IDs.
func (s *Source) fetch(ctx context.Context, n int) (ids []run, err error) {
	err = s.requests.fetch(ctx, s.client, func(d *daemon) error {
		ids, err = s.ask(ctx, d, n)
		if err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.stats.Failures++
			s.mu.Unlock()
		}
		return err
	})
	return ids, err
}

// ask makes one request of one daemon.
func (s *Source) ask(ctx context.Context, d *daemon, n int) ([]run, error) {
	ids, err := d.fetch(ctx, s.path+"?as=ranges&n="+strconv.Itoa(n), s.traceparent(), n)
	if err != nil {
		return nil, err
	}
	first, r := ids[0].first, &s.requests
	if slices.Contains(r.firsts, first) {
		return nil, fmt.Errorf("%w: %s repeats a response (it begins with %d): IDs must not be cached", ErrBadResponse, d.name, first)
	}
	r.firsts = append(r.firsts[max(0, len(r.firsts)+1-recent):], first)
	return ids, nil
}

// pause returns how long until a daemon may be asked.
func (r *requests) pause(c *Client) time.Duration {
	next := c.mono() + lastPause
	for _, d := range r.order {
		_, until := d.state()
		next = min(next, max(until, r.until[d]))
	}
	return max(next-c.mono(), time.Millisecond)
}
