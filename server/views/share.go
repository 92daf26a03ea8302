package views

import (
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
)

// mostPause bounds pauses that are a factor of what something took: where the process was frozen meanwhile,
// that is no work.
const mostPause = 30 * time.Second

// kept is the last reading of something, for all that ask for it. It keeps:
//
//  1. There is one reading of a generation at a time. It serves all that ask meanwhile, and after that until
//     every has gone by since it began, and pause times what it took, mostPause at most, since it ended. So does
//     its error: a ZooKeeper that is away is asked now and then, however many ask.
//  2. A reading of one generation serves no request of another one.
//  3. Nothing that was returned is changed afterwards.
type kept[T any] struct {
	every  time.Duration // immutable
	pause  int           // immutable; a factor
	flight singleflight.Group
	last   atomic.Pointer[reading[T]] // nil: none was made
}

// reading is a value as it was read last.
type reading[T any] struct {
	value   T
	asOf    clock.Millis  // when it was read; 0: never
	at      time.Time     // when that ended
	took    time.Duration // that
	err     error         // of a later reading
	of      string        // the generation
	expires time.Time     // when it serves no more
}

// get returns what read returns, or has returned to another request of this generation.
func (k *kept[T]) get(s *Server, generation string, read func() (T, error)) (*reading[T], error) {
	if r := k.serving(generation); r != nil {
		return r, r.err
	}
	v, err, _ := k.flight.Do(generation, func() (any, error) {
		if r := k.serving(generation); r != nil { // it ended just now
			return r, r.err
		}
		began, r := time.Now(), &reading[T]{asOf: s.now(), of: generation}
		value, err := read()
		if r.at = time.Now(); err != nil {
			*r = *k.seen()
			r.of, r.err = generation, err
		} else {
			r.value, r.took = value, r.at.Sub(began)
		}
		took := time.Since(began)
		r.expires = began.Add(max(k.every, took+min(time.Duration(k.pause)*took, mostPause)))
		k.last.Store(r)
		return r, err
	})
	r, _ := v.(*reading[T])
	return r, err
}

func (k *kept[T]) serving(generation string) *reading[T] {
	if r := k.last.Load(); r != nil && r.of == generation && time.Now().Before(r.expires) {
		return r
	}
	return nil
}

// seen returns the last reading, for callers that don't wait; what it has is zero where none was made.
func (k *kept[T]) seen() *reading[T] {
	if r := k.last.Load(); r != nil {
		return r
	}
	return &reading[T]{}
}

// stale reports whether r is not to be taken for current: its last reading failed, or it is older than two of these
// readings take. Pages show it as of its time.
func (k *kept[T]) stale(r *reading[T]) bool {
	each := max(k.every, time.Duration(1+k.pause)*min(r.took, mostPause)) + k.every // pages ask about as often as it is read
	return r.err != nil || r.asOf > 0 && time.Since(r.at) > 2*each
}

// failing returns the code of the error of the last reading; "" where it succeeded.
func (r *reading[T]) failing() string {
	if r.err == nil {
		return ""
	}
	return reply.To(r.err).Code
}
