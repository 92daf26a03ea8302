package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/state"
)

// line is the daemon's state in one line, as `systemctl status` shows it: the worker,
// the clock, the stores.
func (s *supervisor) line() string {
	s.mu.Lock()
	now, failing := s.parts, len(s.failing)
	s.mu.Unlock()
	// The rest may wait for other locks, whose holders may wait for this one.
	if now.phase == state.Stopping.Issuing {
		return now.phase
	}
	var parts []string
	switch {
	case now.phase != "":
		parts = append(parts, now.phase)
	case now.life == nil:
		parts = append(parts, "no snowflake IDs")
	default:
		parts = append(parts, now.worker()...)
	}
	if now.tags != nil {
		parts = append(parts, now.segments(failing))
	}
	return strings.Join(parts, "; ")
}

// parts are the parts that the status line names.
type parts struct {
	phase      string                 // "" once the start is over
	life       *life                  // nil until IDs are issued, and without snowflake IDs
	tags       func() int             // nil without segments
	trouble    func(tag string) error // why the store doesn't serve
	store      string                 // what the tags come from
	loadFailed bool                   // the tags can't be read
	unguarded  bool                   // ranges are fetched without ZooKeeper
}

// degraded tells what a daemon that is ready has to do without.
func (s *supervisor) degraded() []string {
	s.mu.Lock()
	now, failing := s.parts, slices.Sorted(maps.Keys(s.failing))
	if len(failing) > 0 && s.failing[failing[0]] == segment.KindGuardAway {
		now.store += " without ZooKeeper"
	}
	s.mu.Unlock()
	var without []string
	switch {
	case now.tags == nil:
	case now.loadFailed:
		without = append(without, now.store+" is out of reach: tags have what is in memory")
	case len(failing) > fewNamed:
		without = append(without, fmt.Sprintf("%s gives no range to %d tags, %s among them", now.store, len(failing), strings.Join(failing[:fewNamed], ", ")))
	case len(failing) > 0:
		without = append(without, fmt.Sprintf("%s gives no range to %s", now.store, strings.Join(failing, ", ")))
	}
	if now.life != nil && now.life.registry != nil && now.life.worker.Registry() != nil {
		without = append(without, "ZooKeeper takes no report: snowflake IDs are issued until the lease ends")
	}
	if now.unguarded {
		without = append(without, "ZooKeeper is away: ranges are fetched without it")
	}
	if now.life != nil && now.life.worker.Vote() == clock.Undecided {
		without = append(without, "some peers have another time, and no majority tells who is wrong")
	}
	return without
}

// fewNamed bounds how many tags are named.
const fewNamed = 3

func (p parts) worker() []string {
	w := p.life.worker
	r := w.Record()
	is := state.OfWorker(p.life.check())
	if is.Clock == state.Active.Clock && w.Vote() == clock.Undecided {
		is = state.Undecided
	}
	parts := []string{fmt.Sprintf("worker %d (%s) %s", r.WorkerID, r.Node, is.Issuing)}
	if is.Clock != "" {
		parts = append(parts, is.Clock)
	}
	switch {
	case p.life.registry == nil:
		parts = append(parts, "standalone")
	case w.Registry() != nil:
		parts = append(parts, "ZooKeeper OUT OF REACH")
	default:
		parts = append(parts, "ZooKeeper ok")
	}
	return parts
}

func (p parts) segments(failing int) string {
	is := "ok"
	switch {
	case p.loadFailed:
		is = "OUT OF REACH"
	case failing > 0:
		is = fmt.Sprintf("gives no range to %d", failing)
	}
	if p.unguarded {
		is += ", without ZooKeeper"
	}
	return fmt.Sprintf("%d tags, %s %s", p.tags(), p.store, is)
}

// why returns why what raised the alarms of code lasts, as it is now; nil where only the
// alarm tells.
func (s *supervisor) why(code alarm.Code) error {
	s.mu.Lock()
	now, tag := s.parts, ""
	for tag = range s.failing {
		break
	}
	s.mu.Unlock()
	switch code { //nolint:exhaustive // of the others nobody asks twice
	case alarm.SegmentStore:
		if now.trouble != nil {
			return now.trouble(tag)
		}
	case alarm.RegistryUnreachable:
		if now.life != nil {
			return now.life.worker.Registry()
		}
	}
	return nil
}

// segment notes what the status line says of the store, and passes the event on. It calls
// well once nothing of that is wrong any more.
func (s *supervisor) segment(next func(segment.Event), well func()) func(segment.Event) {
	return func(e segment.Event) {
		s.mu.Lock()
		switch e.Kind { //nolint:exhaustive // the others don't tell of the store
		case segment.KindLoadFailed:
			s.parts.loadFailed = true
		case segment.KindLoaded, segment.KindLoadRecovered:
			s.parts.loadFailed = false
		case segment.KindUnguarded, segment.KindGuarded:
			s.parts.unguarded = e.Kind == segment.KindUnguarded
		case segment.KindFetchFailed, segment.KindRegressed, segment.KindGuardAway, segment.KindBadRow, segment.KindRowMissing, segment.KindMarkFailed:
			s.failing[e.Tag] = e.Kind
		case segment.KindFetchRecovered, segment.KindTagRemoved:
			delete(s.failing, e.Tag)
		}
		ends := !s.parts.loadFailed && len(s.failing) == 0
		s.mu.Unlock()
		next(e)
		if ends && (e.Kind == segment.KindLoadRecovered || e.Kind == segment.KindFetchRecovered || e.Kind == segment.KindTagRemoved) {
			well()
		}
	}
}
