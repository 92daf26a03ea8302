package main

import (
	"errors"
	"strconv"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// monitor turns what the packages tell into log lines and alarms. A change of state
// is one line.
type monitor struct {
	log    zerolog.Logger
	alarms *alarm.Alarms
}

// worker logs what a worker tells.
func (m *monitor) worker(e worker.Event) {
	switch e.Kind {
	case worker.EventFirstStart:
		m.log.Info().Msg("no record of an earlier run: first start")
	case worker.EventWaiting:
		m.log.Warn().Stringer("ceiling", e.Until).Dur("wait_ms", e.Wait).Msg("the last stop was unclean: waiting until its ceiling has passed")
	case worker.EventReportFailing:
		m.alarms.Raise(alarm.ReportFailing, "the ceiling can't be recorded: issuing ends when the clock reaches it", alarm.Err(e.Err))
	case worker.EventReportRecovered:
		m.log.Info().Msg("the ceiling is recorded again")
	case worker.EventClockJumped:
		m.alarms.Raise(alarm.ClockJumped, "the clock jumped ahead: issuing ends at the recorded ceiling", alarm.Err(e.Err))
	case worker.EventFenced:
		m.alarms.Raise(alarm.WorkerFenced, "fenced: nothing is issued until a restart", alarm.Err(e.Err))
	case worker.EventClockBehind:
		m.alarms.Raise(alarm.ClockBackwards, "the clock is behind the last ID: issuing is refused", alarm.Err(e.Err))
	case worker.EventClockRefused:
		m.alarms.Raise(alarm.ClockBackwards, "the clock was behind the last ID for a moment: calls were refused", alarm.F("refused", e.Refused))
	case worker.EventStalled:
		m.alarms.Raise(alarm.IssuingStalled, "issuing is refused", alarm.Err(e.Err))
	case worker.EventResumed:
		m.log.Info().Uint64("refused", e.Refused).Msg("issuing again")
	default:
		m.registry(e)
	}
}

// registry logs what a worker tells of the registry and the peers.
func (m *monitor) registry(e worker.Event) {
	switch e.Kind { //nolint:exhaustive // worker has the others
	case worker.EventRecordLost:
		m.log.Warn().Err(e.Err).Msg("the local record is lost: ZooKeeper's entry replaces it")
	case worker.EventRenamed:
		m.log.Warn().Str("was", e.Text).Msg("the node has another name than the local record: it gets a worker ID of its own")
	case worker.EventRemoved:
		m.log.Warn().Str("was", e.Text).Msg("our entry is gone from ZooKeeper: a worker ID is claimed anew")
	case worker.EventOffline:
		m.alarms.Raise(alarm.RegistryUnreachable, "ZooKeeper can't be reached: starting from the local record", alarm.Err(e.Err))
	case worker.EventConfirmed:
		m.log.Info().Msg("ZooKeeper has confirmed the local record")
	case worker.EventRegistryLost:
		m.alarms.Raise(alarm.RegistryUnreachable, "ZooKeeper takes no report: issuing goes on by the local record", alarm.Err(e.Err))
	case worker.EventRegistryBack:
		m.log.Info().Msg("ZooKeeper takes reports again")
	case worker.EventRecordFailing:
		m.alarms.Raise(alarm.RecordFailing, "the data folder takes no record: issuing goes on while ZooKeeper does", alarm.Err(e.Err))
	case worker.EventRecordBack:
		m.log.Info().Msg("the data folder takes records again")
	case worker.EventPeersSilent:
		m.alarms.Raise(alarm.PeersSilent, "no peer tells its clock: ours goes unchecked", alarm.Err(e.Err))
	case worker.EventPeersDisagree:
		m.alarms.Raise(alarm.PeersDisagree, "most peers have another time: not ready; IDs are issued on", alarm.Err(e.Err))
	case worker.EventPeersAgree:
		m.log.Info().Msg("the peers have our time again: ready")
	case worker.EventJumpConfirmed:
		m.log.Warn().Str("jump", e.Text).Msg("the clock jumped ahead, and the peers confirm it: going on")
	}
}

// startFailed raises the alarm for a start that the guards refused.
func (m *monitor) startFailed(err error) {
	switch {
	case errors.Is(err, worker.ErrClockRefused):
		m.alarms.Raise(alarm.ClockRefused, "the clock was refused: leafd does not start", alarm.Err(err))
	case errors.Is(err, worker.ErrHeld):
		m.alarms.Raise(alarm.IdentityHeld, "another process is this node: leafd does not start", alarm.Err(err))
	case errors.Is(err, worker.ErrExhausted):
		m.alarms.Raise(alarm.WorkersExhausted, "no worker ID is left: leafd does not start", alarm.Err(err))
	case errors.Is(err, worker.ErrUnreachable):
		m.alarms.Raise(alarm.RegistryUnreachable, "ZooKeeper can't be reached, and the local record is not enough: leafd does not start", alarm.Err(err))
	}
}

// zookeeper logs what the registry tells of ZooKeeper.
func (m *monitor) zookeeper(e zkreg.Event) {
	switch e.Kind {
	case zkreg.EventForgot:
		m.alarms.Raise(alarm.RegistryForgot, "ZooKeeper has lost its data: our worker ID was put back", alarm.Err(e.Err))
	case zkreg.EventRestored:
		m.alarms.Raise(alarm.RegistryRestored, "ZooKeeper was set back to an earlier state: our entry was written anew", alarm.Err(e.Err))
	case zkreg.EventDisconnected:
		if e.Err == nil { // our own doing
			m.log.Debug().Str("server", e.Server).Msg("ZooKeeper: disconnected")
			return
		}
		m.log.Warn().Str("server", e.Server).AnErr("reason", e.Err).Msg("ZooKeeper: disconnected")
	case zkreg.EventConnected:
		m.log.Info().Str("server", e.Server).Str("session", strconv.FormatInt(e.Session, 16)).Msg("ZooKeeper: connected")
	default: // told by the worker too where it matters
		m.log.Warn().Str("server", e.Server).AnErr("reason", e.Err).Msgf("ZooKeeper: %s", e.Kind)
	}
}

// segment logs what the segment service tells.
func (m *monitor) segment(e segment.Event) {
	switch e.Kind {
	case segment.KindLoaded:
		m.log.Info().Int64("tags", e.Count).Msg("segment tags loaded")
	case segment.KindTagAdded:
		m.log.Info().Str("tag", e.Tag).Msg("tag added")
	case segment.KindTagRemoved:
		m.log.Info().Str("tag", e.Tag).Msg("tag removed")
	case segment.KindTagChanged:
		m.log.Info().Str("tag", e.Tag).Int64("old_step", e.OldStep).Int64("new_step", e.NewStep).Msg("tag changed")
	case segment.KindLoadFailed:
		m.alarms.Raise(alarm.SegmentStore, "the segment tags can't be read: the known ones are served on", alarm.Err(e.Err))
	case segment.KindLoadRecovered:
		m.log.Info().Int64("tags", e.Count).Msg("the segment tags can be read again")
	case segment.KindFetchFailed:
		m.alarms.Raise(alarm.SegmentStore, "no range can be fetched: the tag is served from memory while that lasts", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindRegressed:
		m.alarms.Raise(alarm.SegmentRegressed, "max_id went backwards: its ranges are refused", alarm.F("tag", e.Tag), alarm.F("highest_seen", e.High), alarm.Err(e.Err))
	case segment.KindBadRow:
		m.alarms.Raise(alarm.SegmentBadRow, "the row can't be used: its ranges are refused", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindMarkFailed:
		m.alarms.Raise(alarm.SegmentMark, "the highest ID can't be kept in the data folder: new ranges are refused", alarm.F("tag", e.Tag), alarm.Err(e.Err))
	case segment.KindFetchRecovered:
		m.log.Info().Str("tag", e.Tag).Int64("failures", e.Count).Msg("ranges are fetched again")
	}
}
