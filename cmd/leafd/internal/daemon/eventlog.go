package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// noteWait notes what a start waits for; nil: nothing that is known.
func (d *daemon) noteWait(what error) { d.waits.Store(&what) }

// tell logs an event, and posts it where it is an alarm.
func (d *daemon) tell(c condition.Condition) {
	c.Cause = cause(c)
	d.alarms.Tell(c)
}

// workerEvent writes down what a worker tells when it happens. What lasts it tells when it is asked (conditions).
func (d *daemon) workerEvent(e worker.Event) {
	switch e.Kind {
	case worker.EventFirstStart:
		d.Log.Info().Msg("no record of an earlier run: first start")
	case worker.EventWaiting:
		d.noteWait(fmt.Errorf("until the ceiling of the last life has passed, at %s", e.Until))
		d.Log.Warn().Stringer("ceiling", e.Until).Dur("wait_ms", e.Wait).Msg("the last stop was unclean, or the worker ID was another's: waiting until its ceiling has passed")
	case worker.EventRecordStale:
		d.Log.Warn().Stringer("ceiling", e.Until).Msg("one of the two slots of worker.json is damaged: the start waits for a ceiling that the lost one may have had")
	case worker.EventClockRefused:
		d.tell(condition.Of(condition.ErrClockForAMoment, "", fmt.Errorf("%d calls were refused", e.Refused)))
	case worker.EventRecordLost:
		d.tell(condition.Of(condition.ErrRecordSetAside, "", e.Err))
	case worker.EventRemoved:
		d.tell(condition.ByCode(condition.WorkerIDLost, "", errors.New(e.Text)))
	case worker.EventDataLost:
		d.tell(condition.ByCode(condition.RegistryForgot, "", e.Err))
	case worker.EventRewritten:
		d.Log.Warn().Msg(e.Text)
	case worker.EventNoCluster, worker.EventWatching, worker.EventSettling, worker.EventUnreachable, worker.EventExhausted, worker.EventPieceEnds:
		d.noteWait(e.Err)
		d.Log.Warn().AnErr("reason", e.Err).Msgf("waiting: %s", e.Kind)
	case worker.EventOffline:
		d.Log.Warn().Err(e.Err).Msg("ZooKeeper can't be reached: starting from the local record")
	case worker.EventJumpConfirmed:
		d.Log.Warn().Str("jump", e.Text).Msg("the clock jumped ahead, and the peers confirm it: going on")
	}
}

// watchSession logs what has become of the session with ZooKeeper, until ctx is done.
func (d *daemon) watchSession(ctx context.Context) error {
	for was := (zksession.Info{}); d.Clock.Sleep(ctx, statusInterval) == nil; {
		now := d.session()
		if now.State == was.State && now.Connects == was.Connects && (now.Failure == nil) == (was.Failure == nil) {
			continue
		}
		level := zerolog.WarnLevel
		if now.Failure == nil {
			level = zerolog.InfoLevel
		}
		d.Log.WithLevel(level).Str("server", now.Server).Str("session", strconv.FormatInt(now.ID, 16)).Uint64("expiries", now.Expiries).
			AnErr("reason", now.Failure).Msgf("ZooKeeper: %s", now.State)
		was = now
	}
	return nil
}

// session returns the last life's with ZooKeeper; the zero Info for none.
func (d *daemon) session() (info zksession.Info) {
	if r := d.registry.Load(); r != nil {
		info = r.Session()
	}
	return info
}

// segmentEvent writes down the events of the segment service.
func (d *daemon) segmentEvent(e segment.Event) {
	switch e.Kind {
	case segment.KindTagRemoved:
		d.Log.Info().Str("tag", e.Tag).Msg(string(e.Kind))
	case segment.KindTagChanged:
		d.Log.Info().Str("tag", e.Tag).Int64("old_step", e.OldStep).Int64("new_step", e.NewStep).Msg("tag changed")
	case segment.KindMoved:
		d.tell(condition.Of(condition.ErrMovedForward, e.Tag, fmt.Errorf("by %d, to %d", e.Count, e.High)))
	case segment.KindServer:
		d.tell(condition.Of(condition.ErrDatabaseChanged, d.cfg.Store(true).Kind(), fmt.Errorf("from %s to %s", e.Was, e.Now)))
	case segment.KindOtherMarks:
		d.Log.Warn().Int64("marks", e.Count).Str("store", e.Now).Msg("marks.db has marks of other stores, too: they count for nothing")
	}
}

// certificateLoaded logs that changed files of the certificate are in use.
func (d *daemon) certificateLoaded(subject string, expires time.Time) {
	d.Log.Info().Str("subject", subject).Time("expires", expires).Msg("the certificate's files have changed, and are in use")
}

// conditions asks each part what is wrong with it.
func (d *daemon) conditions() []condition.Condition {
	var all []condition.Condition
	if l := d.life.Load(); l != nil {
		all = l.conditions()
	} else if d.cfg.Snowflake.On {
		all = append(all, condition.ByCode(condition.StartingUp, "", cmp.Or(d.session().Failure, *d.waits.Load())))
	}
	if segments := d.segments.Load(); segments != nil {
		for _, t := range segments.Troubles() {
			if errors.Is(t.Is, segment.ErrStore) && d.cfg.Store(true).Local() && isFull(t.Err) {
				t.Is = segment.ErrMark // it is the same disk
			}
			if t.Tag == "" {
				t.Tag = d.cfg.Store(true).Kind()
			}
			all = append(all, d.conditionOf(t.Is, t.Tag, t.Err))
		}
	}
	if d.certificates != nil {
		all = append(all, d.certificates.Conditions()...)
	}
	if err := d.Reload.refused.Load(); err != nil {
		all = append(all, condition.ByCode(condition.ReloadRefused, "", *err))
	}
	if err := d.alarms.Undelivered(); err != nil {
		all = append(all, condition.ByCode(condition.AlarmsUndelivered, "", err))
	}
	for i := range all {
		all[i].Cause = cause(all[i])
	}
	return all
}

// conditionOf names the part that is at fault, where subject is not.
func (d *daemon) conditionOf(is error, subject string, err error) condition.Condition {
	switch is { //nolint:errorlint // it is one of the sentinels
	case worker.ErrUnreachable, worker.ErrLeaseHalf, segment.ErrUnguarded, segment.ErrGuardAway:
		subject = "ZooKeeper"
	case worker.ErrNotRecorded, snowflake.ErrCeilingReached, segment.ErrMark:
		subject = d.cfg.DataDir
	}
	return condition.Of(is, subject, d.fullDisk(err))
}

// conditions returns the life's.
func (l *life) conditions() (all []condition.Condition) {
	if why := l.refused.Load(); why != nil { // it keeps the next life from beginning
		all = condition.Unfit(fmt.Errorf("no new life begins: %w", *why))
	}
	ready := true
	for _, t := range l.worker.Troubles() {
		c := l.d.conditionOf(t.Is, "", t.Err)
		ready = ready && !c.NotReady()
		all = append(all, c)
	}
	err := l.ids.Check()
	if err != nil && !errors.Is(err, snowflake.ErrStopped) && !errors.Is(err, worker.ErrFenced) && (ready || errors.Is(err, snowflake.ErrClockBackwards)) {
		all = append(all, condition.Of(err, "", err))
	}
	condition.Sort(all)
	return all
}
