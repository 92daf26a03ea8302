package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/worker"
)

// The codes of alarms: something that somebody must look at. README lists them
// with what to do; programs compare them, so one is never renamed.
const (
	alarmClockBackwards  = "clock_backwards"
	alarmClockJumped     = "clock_jumped"
	alarmClockRefused    = "clock_refused"
	alarmReportFailing   = "report_failing"
	alarmWorkerFenced    = "worker_fenced"
	alarmIssuingStalled  = "issuing_stalled"
	alarmSegmentStore    = "segment_store"
	alarmSegmentRegress  = "segment_regressed"
	alarmSegmentBadRow   = "segment_bad_row"
	alarmSegmentMarkFile = "segment_mark"
)

func alarmCodes() []string {
	return []string{
		alarmClockBackwards, alarmClockJumped, alarmClockRefused, alarmReportFailing, alarmWorkerFenced, alarmIssuingStalled,
		alarmSegmentStore, alarmSegmentRegress, alarmSegmentBadRow, alarmSegmentMarkFile,
	}
}

// monitor turns what the packages tell into log lines, alarms and their
// counters: the one place that raises an alarm. A change of state is one line.
type monitor struct {
	log    zerolog.Logger
	alarms *prometheus.CounterVec
}

func newMonitor(log zerolog.Logger, registry prometheus.Registerer) *monitor {
	m := &monitor{log: log, alarms: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_alarms_total",
		Help: "Alarms raised, by code; the log has a line with alarm=<code> for each.",
	}, []string{"code"})}
	registry.MustRegister(m.alarms)
	for _, code := range alarmCodes() {
		m.alarms.WithLabelValues(code)
	}
	return m
}

// alarm begins the line of an alarm.
func (m *monitor) alarm(code string) *zerolog.Event {
	m.alarms.WithLabelValues(code).Inc()
	return m.log.Error().Str("alarm", code)
}

// worker logs what a worker tells.
func (m *monitor) worker(e worker.Event) {
	switch e.Kind {
	case worker.EventFirstStart:
		m.log.Info().Msg("no record of an earlier run: first start")
	case worker.EventWaiting:
		m.log.Warn().Stringer("ceiling", e.Until).Dur("wait_ms", e.Wait).Msg("the last stop was unclean: waiting until its ceiling has passed")
	case worker.EventReportFailing:
		m.alarm(alarmReportFailing).Err(e.Err).Msg("the ceiling can't be recorded: issuing ends when the clock reaches it")
	case worker.EventReportRecovered:
		m.log.Info().Msg("the ceiling is recorded again")
	case worker.EventClockJumped:
		m.alarm(alarmClockJumped).Err(e.Err).Msg("the clock jumped ahead: issuing ends at the recorded ceiling")
	case worker.EventFenced:
		m.alarm(alarmWorkerFenced).Err(e.Err).Msg("fenced: nothing is issued until a restart")
	case worker.EventClockBehind:
		m.alarm(alarmClockBackwards).Err(e.Err).Msg("the clock is behind the last ID: issuing is refused")
	case worker.EventClockRefused:
		m.alarm(alarmClockBackwards).Uint64("refused", e.Refused).Msg("the clock was behind the last ID for a moment: calls were refused")
	case worker.EventStalled:
		m.alarm(alarmIssuingStalled).Err(e.Err).Msg("issuing is refused")
	case worker.EventResumed:
		m.log.Info().Uint64("refused", e.Refused).Msg("issuing again")
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
	case segment.KindLoadFailed:
		m.alarm(alarmSegmentStore).Err(e.Err).Msg("the segment tags can't be read: the known ones are served on")
	case segment.KindLoadRecovered:
		m.log.Info().Int64("tags", e.Count).Msg("the segment tags can be read again")
	case segment.KindFetchFailed:
		m.alarm(alarmSegmentStore).Str("tag", e.Tag).Err(e.Err).Msg("no range can be fetched: the tag is served from memory while that lasts")
	case segment.KindRegressed:
		m.alarm(alarmSegmentRegress).Str("tag", e.Tag).Int64("highest_seen", e.High).Err(e.Err).Msg("max_id went backwards: its ranges are refused")
	case segment.KindBadRow:
		m.alarm(alarmSegmentBadRow).Str("tag", e.Tag).Err(e.Err).Msg("the row can't be used: its ranges are refused")
	case segment.KindMarkFailed:
		m.alarm(alarmSegmentMarkFile).Str("tag", e.Tag).Err(e.Err).Msg("the highest ID can't be kept in the data folder: new ranges are refused")
	case segment.KindFetchRecovered:
		m.log.Info().Str("tag", e.Tag).Int64("failures", e.Count).Msg("ranges are fetched again")
	}
}
