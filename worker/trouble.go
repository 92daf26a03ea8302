package worker

import (
	"errors"
	"fmt"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// Sentinels of Trouble, beside ErrFenced, ErrLeaseOver, ErrClockJumped, ErrPeersDisagree,
// ErrUnreachable, ErrNoCluster and snowflake.ErrCeilingReached. IDs are issued all the same.
var (
	// ErrNotRecorded tells that the ceiling can't be raised any further: issuing ends when the clock reaches it.
	ErrNotRecorded = errors.New("the ceiling could not be recorded")
	// ErrLeaseHalf tells that half of the time has passed for which IDs may be issued without the registry.
	ErrLeaseHalf = errors.New("half of the lease is over")
	// ErrPeersUndecided tells that clocks differ and no majority says which are wrong.
	ErrPeersUndecided = errors.New("the clocks differ")
	// ErrPeersSilent tells that none of the peers tells its clock.
	ErrPeersSilent = errors.New("no peer tells its clock")
)

// Trouble is one thing that is wrong with a Worker.
type Trouble struct {
	Is  error // one of the sentinels
	Err error // why
}

// Troubles returns what is wrong now, of which the worst is first. It waits for nothing.
func (w *Worker) Troubles() (all []Trouble) {
	now := w.cfg.Clock.Read().Wall()
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(is, err error) { all = append(all, Trouble{is, err}) }
	switch {
	case errors.Is(w.fenced, ErrLeaseOver):
		add(ErrLeaseOver, w.fenced)
		return all
	case w.fenced != nil:
		add(ErrFenced, w.fenced)
		return all
	case errors.Is(w.lastErr, ErrClockJumped):
		add(ErrClockJumped, w.lastErr)
	case w.lastErr != nil && now >= w.Ceiling():
		add(snowflake.ErrCeilingReached, w.lastErr)
	case w.lastErr != nil:
		add(ErrNotRecorded, w.lastErr)
	}
	if is := map[clock.Vote]error{clock.Outvoted: ErrPeersDisagree, clock.Undecided: ErrPeersUndecided}[w.vote]; is != nil {
		_, said := w.panel.Judge(w.samples)
		add(is, errors.New("this clock is "+said))
	}
	if silent := clock.Silence(w.samples); silent != nil {
		add(ErrPeersSilent, silent)
	}
	if r := w.record; w.remoteErr != nil {
		add(ErrUnreachable, w.remoteErr)
		if half := r.Registered.Add(r.Limit.Sub(r.Registered) / 2); r.Registered > 0 && r.Limit > 0 && now >= half {
			add(ErrLeaseHalf, fmt.Errorf("worker %d is ours up to %s, and ZooKeeper took the last report at %s", r.WorkerID, r.Limit, r.Registered))
		}
	}
	if w.closed > now {
		add(ErrNoCluster, fmt.Errorf("ZooKeeper lost data: no new worker ID is given out until %s", w.closed))
	}
	return all
}
