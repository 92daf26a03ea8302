package daemon

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// eventLog writes down what the packages tell when it happens. What lasts they tell when they are
// asked (conditions).
type eventLog struct {
	log    zerolog.Logger
	alarms *alarm.Alarms
	waits  atomic.Pointer[error]
}

// noteWait notes what a start waits for; nil: nothing that is known.
func (l *eventLog) noteWait(what error) { l.waits.Store(&what) }

// waitsFor returns what a start waits for; nil where it isn't known.
func (l *eventLog) waitsFor() error {
	if what := l.waits.Load(); what != nil {
		return *what
	}
	return nil
}

// waitError is a wait in words of leafd's own.
type waitError string

// Error implements error.
func (w waitError) Error() string { return string(w) }

// worker writes down the events of a worker.
func (l *eventLog) worker(e worker.Event) {
	switch e.Kind {
	case worker.EventFirstStart:
		l.log.Info().Msg("no record of an earlier run: first start")
	case worker.EventWaiting:
		l.noteWait(waitError("until the ceiling of the last life has passed, at " + e.Until.String()))
		l.log.Warn().Stringer("ceiling", e.Until).Dur("wait_ms", e.Wait).Msg("the last stop was unclean, or the worker ID was another's: waiting until its ceiling has passed")
	case worker.EventRecordStale:
		l.log.Warn().Stringer("ceiling", e.Until).Msg("one of the two slots of worker.json is damaged: the start waits for a ceiling that the lost one may have had")
	case worker.EventClockRefused:
		l.alarms.Tell(condition.Of(condition.ErrClockForAMoment, "", waitError(strconv.FormatUint(e.Refused, 10)+" calls were refused")))
	case worker.EventRecordLost:
		l.alarms.Tell(condition.ByCode(condition.RecordSetAside, "", e.Err))
	case worker.EventRemoved:
		l.alarms.Tell(condition.ByCode(condition.WorkerIDLost, "", waitError(e.Text)))
	case worker.EventDataLost:
		l.alarms.Tell(condition.ByCode(condition.RegistryDataLost, "", e.Err))
	case worker.EventNoCluster, worker.EventWatching, worker.EventSettling:
		l.noteWait(e.Err)
		l.log.Warn().AnErr("reason", e.Err).Msgf("waiting: %s", e.Kind)
	case worker.EventOffline:
		l.log.Warn().Err(e.Err).Msg("ZooKeeper can't be reached: starting from the local record")
	case worker.EventJumpConfirmed:
		l.log.Warn().Str("jump", e.Text).Msg("the clock jumped ahead, and the peers confirm it: going on")
	}
}

// refused tells why a life could not begin, where the process ends with that.
func (l *eventLog) refused(err error) {
	if c, ok := condition.Unfit(fmt.Errorf("leafd does not start: %w", err)); ok {
		l.alarms.Tell(c)
	}
}

// zookeeper logs the events of the connection to ZooKeeper.
func (l *eventLog) zookeeper(e zksession.Event) {
	switch e.Kind {
	case zksession.EventDisconnected:
		if e.Err == nil { // we closed it
			l.log.Debug().Str("server", e.Server).Msg("ZooKeeper: disconnected")
			return
		}
		l.log.Warn().Str("server", e.Server).AnErr("reason", e.Err).Msg("ZooKeeper: disconnected")
	case zksession.EventConnected:
		l.noteWait(nil)
		l.log.Info().Str("server", e.Server).Str("session", strconv.FormatInt(e.Session, 16)).Msg("ZooKeeper: connected")
	default: // the worker tells it too where it matters
		if e.Err != nil {
			l.noteWait(e.Err)
		}
		l.log.Warn().Str("server", e.Server).AnErr("reason", e.Err).Msgf("ZooKeeper: %s", e.Kind)
	}
}

// segment writes down the events of the segment service.
func (l *eventLog) segment(e segment.Event) {
	switch e.Kind {
	case segment.KindLoaded:
		l.log.Info().Int64("tags", e.Count).Msg("segment tags loaded")
	case segment.KindTagAdded:
		l.log.Info().Str("tag", e.Tag).Msg("tag added")
	case segment.KindTagRemoved:
		l.log.Info().Str("tag", e.Tag).Msg("tag removed")
	case segment.KindTagChanged:
		l.log.Info().Str("tag", e.Tag).Int64("old_step", e.OldStep).Int64("new_step", e.NewStep).Msg("tag changed")
	case segment.KindMoved:
		l.alarms.Tell(condition.Of(condition.ErrMovedForward, e.Tag, waitError("by "+strconv.FormatInt(e.Count, 10)+", to "+strconv.FormatInt(e.High, 10))))
	}
}

// certificate logs that changed files of the certificate are in use.
func (l *eventLog) certificate(subject string, expires time.Time) {
	l.log.Info().Str("subject", subject).Time("expires", expires).Msg("the certificate's files have changed, and are in use")
}

// conditions asks each part what is wrong with it.
func (d *daemon) conditions() []condition.Condition {
	d.partsMu.Lock()
	l, segments, certificates := d.life, d.segments, d.certificates
	d.partsMu.Unlock()
	var all []condition.Condition
	switch {
	case l != nil:
		all = l.conditions()
	case d.cfg.Snowflake.On:
		all = append(all, condition.ByCode(condition.StartingUp, "", d.events.waitsFor()))
	}
	if segments != nil {
		for _, t := range segments.Troubles() {
			if errors.Is(t.Is, segment.ErrStore) && d.cfg.Store(true).Local() && isFull(t.Err) {
				t.Is = segment.ErrMark // it is the same disk
			}
			all = append(all, condition.Of(t.Is, d.subjectOf(t), d.fullDisk(t.Err)))
		}
	}
	if certificates != nil {
		all = append(all, certificates.Conditions()...)
	}
	return all
}

// subjectOf names the part that is at fault, or the tag.
func (d *daemon) subjectOf(t segment.Trouble) string {
	switch {
	case errors.Is(t.Is, segment.ErrMark):
		return d.cfg.DataDir
	case errors.Is(t.Is, segment.ErrUnguarded), errors.Is(t.Is, segment.ErrGuardAway):
		return "ZooKeeper"
	case t.Tag == "" && !errors.Is(t.Is, segment.ErrBadRow) && !errors.Is(t.Is, segment.ErrRegressed):
		return d.cfg.Store(true).Kind()
	}
	return t.Tag
}

// conditions are the life's.
func (l *life) conditions() (all []condition.Condition) {
	if why := l.refused.Load(); why != nil { // it keeps the next life from beginning
		if c, ok := condition.Unfit(fmt.Errorf("no new life begins: %w", *why)); ok {
			all = append(all, c)
		}
	}
	ready := true
	for _, t := range l.worker.Troubles() {
		subject := ""
		switch {
		case errors.Is(t.Is, worker.ErrUnreachable), errors.Is(t.Is, worker.ErrLeaseHalf):
			subject = "ZooKeeper"
		case errors.Is(t.Is, worker.ErrNotRecorded), errors.Is(t.Is, snowflake.ErrCeilingReached):
			subject = l.d.cfg.DataDir
		}
		c := condition.Of(t.Is, subject, l.d.fullDisk(t.Err))
		ready = ready && !c.NotReady
		all = append(all, c)
	}
	switch err := l.ids.Check(); {
	case err == nil, errors.Is(err, snowflake.ErrStopped), errors.Is(err, worker.ErrFenced):
	case errors.Is(err, snowflake.ErrClockBackwards), ready:
		c, known := condition.Unfit(err)
		if !known {
			c = condition.Of(snowflake.ErrTimeExhausted, "", err)
		}
		all = append(all, c)
	}
	condition.Sort(all)
	return all
}
