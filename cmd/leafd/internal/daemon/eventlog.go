package daemon

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/state"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// eventLog turns the events of the packages into log lines and alarms, one for each
// change of state.
type eventLog struct {
	log       zerolog.Logger
	alarms    *alarm.Alarms
	unguarded atomic.Bool // ranges are fetched without ZooKeeper
	waits     atomic.Pointer[string]
}

// waitsFor returns what a start waits for, in words for everybody; "" where nobody has told.
func (l *eventLog) waitsFor() string {
	if what := l.waits.Load(); what != nil {
		return *what
	}
	return ""
}

func (l *eventLog) noteWait(what string) { l.waits.Store(&what) }

// worker logs the events of a worker.
func (l *eventLog) worker(e worker.Event) {
	switch e.Kind {
	case worker.EventFirstStart:
		l.log.Info().Msg("no record of an earlier run: first start")
	case worker.EventWaiting:
		l.noteWait("until the ceiling of the last life has passed, at " + e.Until.String())
		l.log.Warn().Stringer("ceiling", e.Until).Dur("wait_ms", e.Wait).Msg("the last stop was unclean, or the worker ID was another's: waiting until its ceiling has passed")
	case worker.EventRecordStale:
		l.log.Warn().Stringer("ceiling", e.Until).Msg("one of the two slots of worker.json is damaged: the start waits for a ceiling that the lost one may have had")
	case worker.EventReportFailing:
		l.alarms.Raise(alarm.ReportFailing, "the ceiling can't be recorded: issuing ends when the clock reaches it", alarm.Err(e.Err))
	case worker.EventReportRecovered:
		l.log.Info().Msg("the ceiling is recorded again")
		l.alarms.Over(alarm.ReportFailing, alarm.ClockJumped)
	case worker.EventClockJumped:
		l.alarms.Raise(alarm.ClockJumped, "the clock jumped ahead: issuing ends at the recorded ceiling", alarm.Err(e.Err))
	case worker.EventFenced:
		if errors.Is(e.Err, worker.ErrLeaseOver) {
			l.alarms.Raise(alarm.LeaseOver, "the lease is over: nothing is issued until ZooKeeper answers, and a new life begins", alarm.Err(e.Err))
			return
		}
		l.alarms.Raise(alarm.WorkerFenced, "fenced: this life of the daemon is over, and nothing is issued until a new one begins", alarm.Err(e.Err))
	case worker.EventClockBehind:
		l.alarms.Raise(alarm.ClockBackwards, "the clock is behind the last ID: issuing is refused", alarm.Err(e.Err))
	case worker.EventClockRefused:
		l.alarms.Raise(alarm.ClockBackwards, "the clock was behind the last ID for a moment: calls were refused", alarm.F("refused", e.Refused))
		l.alarms.Over(alarm.ClockBackwards)
	case worker.EventStalled:
		l.alarms.Raise(alarm.IssuingStalled, "issuing is refused", alarm.Err(e.Err))
	case worker.EventResumed:
		l.log.Info().Uint64("refused", e.Refused).Msg("issuing again")
		l.alarms.Over(alarm.ClockBackwards, alarm.IssuingStalled)
	default:
		l.registry(e)
	}
}

// registry logs the events of a worker about the registry and the peers.
func (l *eventLog) registry(e worker.Event) {
	switch e.Kind { //nolint:exhaustive // worker has the others
	case worker.EventRecordLost:
		l.alarms.Raise(alarm.RecordSetAside, "the local record was set aside: this data directory gets another worker ID", alarm.Err(e.Err))
	case worker.EventRemoved:
		l.alarms.Raise(alarm.WorkerIDLost, "our worker ID is lost: this data directory gets another one", alarm.F("was", e.Text))
	case worker.EventDataLost:
		l.alarms.Raise(alarm.RegistryDataLost, "ZooKeeper has lost data: each daemon puts its worker ID back", alarm.Err(e.Err))
	case worker.EventNoCluster, worker.EventWatching, worker.EventSettling:
		l.noteWait(cause(e.Err))
		l.log.Warn().AnErr("reason", e.Err).Msgf("waiting: %s", e.Kind)
	case worker.EventOffline:
		l.alarms.Raise(alarm.RegistryUnreachable, "ZooKeeper can't be reached: starting from the local record", alarm.Err(e.Err))
	case worker.EventRegistryLost:
		l.alarms.Raise(alarm.RegistryUnreachable, "ZooKeeper takes no report: issuing goes on by the local record", alarm.Err(e.Err))
	case worker.EventRegistryBack:
		l.log.Info().Msg("ZooKeeper takes reports again")
		l.alarms.Over(alarm.RegistryUnreachable)
	case worker.EventPeersSilent:
		l.alarms.Raise(alarm.PeersSilent, "no peer tells its clock: ours goes unchecked", alarm.Private(e.Err)) // it tells which ports of which machines are open
	case worker.EventPeersBack:
		l.log.Info().Msg("peers tell their clocks again")
		l.alarms.Over(alarm.PeersSilent)
	case worker.EventPeersDisagree:
		l.alarms.Over(alarm.PeersUndecided)
		l.alarms.Raise(alarm.PeersDisagree, "most daemons have another time: not ready; IDs are issued on", alarm.Err(e.Err))
	case worker.EventPeersUndecided:
		l.alarms.Over(alarm.PeersDisagree)
		l.alarms.Raise(alarm.PeersUndecided, "the clocks differ, and no majority says which are wrong: going on", alarm.F("peers", e.Text))
	case worker.EventPeersAgree:
		l.log.Info().Msg("the peers' clocks no longer disagree with ours: ready")
		l.alarms.Over(alarm.PeersDisagree, alarm.PeersUndecided)
	case worker.EventJumpConfirmed:
		l.log.Warn().Str("jump", e.Text).Msg("the clock jumped ahead, and the peers confirm it: going on")
	}
}

// issues ends the alarms of lives that could not issue, or had to end: a new one issues.
func (l *eventLog) issues() {
	l.alarms.Over(alarm.WorkerFenced, alarm.LeaseOver, alarm.ClockRefused, alarm.ClockJumped, alarm.IdentityHeld, alarm.WorkersExhausted, alarm.WorkersClosed,
		alarm.ReportFailing, alarm.ClockBackwards, alarm.IssuingStalled)
}

// fetchesAll ends the alarms of tags that got no range: each gets one again.
func (l *eventLog) fetchesAll() {
	l.alarms.Over(alarm.SegmentStore, alarm.SegmentBadRow, alarm.SegmentMark, alarm.SegmentRegressed)
	if !l.unguarded.Load() {
		l.alarms.Over(alarm.SegmentUnguarded)
	}
}

// startFailed raises the alarm for a start that the guards refused; false where err has
// none. so says what follows from it.
func (l *eventLog) startFailed(err error, so string) bool {
	s, ok := state.RefusedStart(err)
	if ok {
		l.alarms.Raise(alarm.Code(s.Alarm), s.Start+": "+so, alarm.Err(err))
	}
	return ok
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
		l.noteWait("")
		l.log.Info().Str("server", e.Server).Str("session", strconv.FormatInt(e.Session, 16)).Msg("ZooKeeper: connected")
	default: // the worker reports it too where it matters
		if e.Err != nil {
			l.noteWait(cause(e.Err))
		}
		l.log.Warn().Str("server", e.Server).AnErr("reason", e.Err).Msgf("ZooKeeper: %s", e.Kind)
	}
}

// segment logs the events of the segment service.
func (l *eventLog) segment(e segment.Event) {
	switch e.Kind {
	case segment.KindLoaded:
		l.log.Info().Int64("tags", e.Count).Msg("segment tags loaded")
	case segment.KindTagAdded:
		l.log.Info().Str("tag", e.Tag).Msg("tag added")
	case segment.KindTagRemoved:
		l.log.Info().Str("tag", e.Tag).Msg("tag removed")
	case segment.KindTagsGone:
		l.alarms.Raise(alarm.SegmentTagsGone, "the table shows none of the tags: they are served from memory while that lasts", alarm.F("tags", e.Count))
	case segment.KindTagsBack:
		l.log.Info().Int64("tags", e.Count).Msg("the table shows tags again")
		l.alarms.Over(alarm.SegmentTagsGone)
	case segment.KindTagChanged:
		l.log.Info().Str("tag", e.Tag).Int64("old_step", e.OldStep).Int64("new_step", e.NewStep).Msg("tag changed")
	case segment.KindLoadFailed:
		l.alarms.Raise(alarm.SegmentStore, "the segment tags can't be read: the known ones are served on", alarm.Err(e.Err))
	case segment.KindLoadRecovered:
		l.log.Info().Int64("tags", e.Count).Msg("the segment tags can be read again")
	case segment.KindFetchFailed:
		l.alarms.Raise(alarm.SegmentStore, "no range can be fetched: the tag is served from memory while that lasts", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindBehind:
		l.alarms.Raise(alarm.SegmentRegressed, "max_id went backwards", alarm.F("tag", e.Tag), alarm.F("max_id", e.Count), alarm.F("highest_seen", e.High))
	case segment.KindMoved:
		l.log.Warn().Str("tag", e.Tag).Int64("by", e.Count).Int64("to", e.High).Msg("max_id was below what was issued: it was moved forward")
		l.alarms.Over(alarm.SegmentRegressed)
	case segment.KindTablesDiffer:
		l.alarms.Raise(alarm.SegmentTables, "this daemon and another one have different tables of segments", alarm.F("tag", e.Tag), alarm.F("other_node", e.By))
	case segment.KindTablesAgree:
		l.log.Info().Str("tag", e.Tag).Msg("the table has the ranges of the other daemons again")
		l.alarms.Over(alarm.SegmentTables)
	case segment.KindGuardAway:
		l.alarms.Raise(alarm.SegmentUnguarded, "ZooKeeper is away, and required: no range is fetched", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindUnguarded:
		l.unguarded.Store(true)
		l.alarms.Raise(alarm.SegmentUnguarded, "ZooKeeper is away: ranges are fetched without it", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindGuarded:
		l.unguarded.Store(false)
		l.log.Info().Int64("unguarded", e.Count).Msg("ranges are guarded by ZooKeeper again")
		l.alarms.Over(alarm.SegmentUnguarded)
	case segment.KindRegressed:
		l.alarms.Raise(alarm.SegmentRegressed, "max_id went backwards: its ranges are refused", alarm.F("tag", e.Tag), alarm.F("highest_seen", e.High), alarm.Err(e.Err))
	case segment.KindBadRow:
		l.alarms.Raise(alarm.SegmentBadRow, "the row can't be used: its ranges are refused", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindRowMissing:
		l.log.Warn().Str("tag", e.Tag).Err(e.Err).Msg("a fetch found no row: the tag is served from memory until two passes over the table agree that it is gone")
	case segment.KindMarkFailed:
		l.alarms.Raise(alarm.SegmentMark, "the highest ID can't be kept in the data directory: new ranges are refused", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindFetchRecovered:
		l.log.Info().Str("tag", e.Tag).Int64("failures", e.Count).Msg("ranges are fetched again")
	}
}
