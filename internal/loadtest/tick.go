package loadtest

import (
	"context"
	"sync"
	"time"

	"github.com/leafd/leafd/clock"
)

// tick lets the requests whose turn falls between two beats go together at the
// second: one timer for all of them. With a timer for each, waking up costs the
// client, and the daemon that it wakes in its turn, several times what the request
// does.
type tick struct {
	every time.Duration

	mu    sync.Mutex
	gates map[int64]chan struct{} // mu protects; by number of the beat, closed at it
	past  int64                   // mu protects; the last beat that was
}

func newTick(every time.Duration) *tick {
	return &tick{every: every, gates: map[int64]chan struct{}{}, past: -1}
}

// beatOf is the first beat at or after a turn.
func (t *tick) beatOf(turn time.Duration) int64 { return int64((turn + t.every - 1) / t.every) }

// wait waits for the beat of a turn; it doesn't when that has been. false: ctx
// ended first.
func (t *tick) wait(ctx context.Context, turn time.Duration) bool {
	beat := t.beatOf(turn)
	t.mu.Lock()
	if beat <= t.past {
		t.mu.Unlock()
		return true
	}
	gate := t.gates[beat]
	if gate == nil {
		gate = make(chan struct{})
		t.gates[beat] = gate
	}
	t.mu.Unlock()
	select {
	case <-gate:
		return true
	case <-ctx.Done():
		return false
	}
}

// run beats until ctx ends; now returns the time since the start of the run.
func (t *tick) run(ctx context.Context, clk clock.Clock, now func() time.Duration) {
	for {
		beat := int64(now() / t.every)
		t.open(beat)
		if clk.Sleep(ctx, time.Duration(beat+1)*t.every-now()) != nil {
			return
		}
	}
}

// open lets go whoever waits for this beat or one before.
func (t *tick) open(beat int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	// Mostly there is one: the one after the last. After a stall there are more.
	if beat-t.past > int64(len(t.gates)) {
		for waited, gate := range t.gates {
			if waited <= beat {
				close(gate)
				delete(t.gates, waited)
			}
		}
		t.past = beat
		return
	}
	for ; t.past < beat; t.past++ {
		if gate := t.gates[t.past+1]; gate != nil {
			close(gate)
			delete(t.gates, t.past+1)
		}
	}
}
