package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// line is the daemon's state in one line, as `systemctl status` shows it: the worker,
// the clock, the stores.
func (s *supervisor) line() string {
	s.mu.Lock()
	now, failing := s.parts, len(s.failing)
	s.mu.Unlock()
	// The rest may wait for others' locks: with ours held, they would wait for us.
	if now.phase == phaseStopping {
		return now.phase
	}
	var parts []string
	switch {
	case now.phase != "":
		parts = append(parts, now.phase)
	case now.work == nil:
		parts = append(parts, "no snowflake IDs")
	default:
		parts = append(parts, now.worker()...)
	}
	if now.tags != nil {
		parts = append(parts, now.segments(failing))
	}
	return strings.Join(parts, "; ")
}

// parts are what the status line tells of.
type parts struct {
	phase      string         // "" once the start is over
	ids        checked        // nil until IDs are issued, and without snowflake IDs
	work       *worker.Worker // as ids
	zk         bool
	tags       func() int // nil without segments
	store      string     // what the tags come from
	loadFailed bool       // the tags can't be read
}

// Phases beside the one that issues.
const (
	phaseStarting = "starting"
	phaseStopping = "stopping"
)

func (p parts) worker() []string {
	r := p.work.Record()
	err := snowflakeReady(p.ids, p.work)
	who := fmt.Sprintf("worker %d (%s)", r.WorkerID, r.Node)
	clk := "clock ok"
	switch {
	case err == nil:
		who += " issues"
	case errors.Is(err, worker.ErrPeersDisagree):
		who, clk = who+" issues, not ready", "clock NOT as the peers'"
	case errors.Is(err, worker.ErrFenced):
		who, clk = who+" FENCED, issues nothing until a restart", ""
	case errors.Is(err, snowflake.ErrClockBackwards):
		who, clk = who+" REFUSES", "clock BEHIND the last ID"
	case errors.Is(err, worker.ErrClockJumped):
		who, clk = who+" REFUSES", "clock JUMPED ahead"
	case errors.Is(err, snowflake.ErrCeilingReached):
		who, clk = who+" REFUSES, its ceiling can't be recorded", ""
	default:
		who, clk = who+" REFUSES", ""
	}
	parts := []string{who}
	if clk != "" {
		parts = append(parts, clk)
	}
	switch {
	case !p.zk:
		parts = append(parts, "standalone")
	case p.work.Registry() != nil:
		parts = append(parts, "ZooKeeper OUT OF REACH")
	default:
		parts = append(parts, "ZooKeeper ok")
	}
	return parts
}

func (p parts) segments(failing int) string {
	state := "ok"
	switch {
	case p.loadFailed:
		state = "OUT OF REACH"
	case failing > 0:
		state = fmt.Sprintf("gives no range to %d", failing)
	}
	return fmt.Sprintf("%d tags, %s %s", p.tags(), p.store, state)
}

// segment notes what the status line says of the store, and passes the event on.
func (s *supervisor) segment(next func(segment.Event)) func(segment.Event) {
	return func(e segment.Event) {
		s.mu.Lock()
		switch e.Kind { //nolint:exhaustive // the others don't tell of the store
		case segment.KindLoadFailed:
			s.parts.loadFailed = true
		case segment.KindLoaded, segment.KindLoadRecovered:
			s.parts.loadFailed = false
		case segment.KindFetchFailed, segment.KindRegressed, segment.KindBadRow, segment.KindMarkFailed:
			s.failing[e.Tag] = struct{}{}
		case segment.KindFetchRecovered, segment.KindTagRemoved:
			delete(s.failing, e.Tag)
		}
		s.mu.Unlock()
		next(e)
	}
}
