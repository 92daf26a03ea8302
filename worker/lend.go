package worker

import (
	"fmt"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// LendsFrom returns the first clock at which numbers of the sequence are lent: a longest lend after the start, by which all
// that any life before has lent has ended (slots-apart); 0 in a cluster that lends nothing, and standalone.
func (w *Worker) LendsFrom() clock.Millis {
	if longest := w.Record().LongestLend; longest > 0 {
		return w.floor.Add(longest)
	}
	return 0
}

// LendAt returns the clock at which numbers of the sequence are lent now, and where this life's piece ends, which they are
// lent up to at most. It keeps:
//
//	lends-as-issued  To lend at a clock is to issue at it: the clock was judged, it lies below the ceiling, so that a start
//	    after a crash is above it, and the ceiling of a stop, and the limit of a release, are above it.
//	-  The end of the piece is the one that the registry has acknowledged and the file has.
//
// It returns ErrFenced, snowflake.ErrStopped, ErrClockBackwards or ErrCeilingReached.
func (w *Worker) LendAt() (now, end clock.Millis, err error) {
	read := w.cfg.Clock.Read()
	now = read.Wall()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch step := clock.Judge(w.anchor, read); {
	case w.fenced != nil:
		return 0, 0, w.fenced
	case w.life.Err() != nil:
		return 0, 0, snowflake.ErrStopped
	case step.By > w.cfg.MaxForwardStep:
		return 0, 0, fmt.Errorf("%w: %w by %s", snowflake.ErrCeilingReached, ErrClockJumped, step.By)
	case now < w.floor:
		return 0, 0, fmt.Errorf("%w: it says %s, and this life began at %s", snowflake.ErrClockBackwards, now, w.floor)
	case now >= w.Ceiling():
		return 0, 0, fmt.Errorf("%w: clock %s, ceiling %s", snowflake.ErrCeilingReached, now, w.Ceiling())
	}
	w.lentAt = max(w.lentAt, now)
	return now, w.filedLimit, nil
}
