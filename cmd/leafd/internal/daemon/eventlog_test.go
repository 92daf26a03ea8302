package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/server/state"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/worker"
)

func TestRefusedStartsHaveAlarms(t *testing.T) {
	for _, err := range []error{worker.ErrClockRefused, worker.ErrHeld, worker.ErrExhausted, worker.ErrUnreachable} {
		s, ok := state.RefusedStart(err)
		require.True(t, ok, err)
		known := slices.ContainsFunc(alarm.Codes(), func(i alarm.Info) bool { return i.Code == alarm.Code(s.Alarm) })
		require.True(t, known, "%s is in docs/ALARMS.md", s.Alarm)
	}
}

// The events of a worker that a person has to look at have alarms, each its own code.
func TestEventsRaiseAlarms(t *testing.T) {
	for _, test := range []struct {
		event worker.Event
		code  alarm.Code
	}{
		{worker.Event{Kind: worker.EventReportFailing, Err: worker.ErrDamaged}, alarm.ReportFailing},
		{worker.Event{Kind: worker.EventFenced, Err: fmt.Errorf("x: %w", worker.ErrLeaseOver)}, alarm.LeaseOver},
		{worker.Event{Kind: worker.EventRecordLost, Err: worker.ErrForeign}, alarm.RecordSetAside},
		{worker.Event{Kind: worker.EventRemoved, Text: "worker 7"}, alarm.WorkerIDLost},
		{worker.Event{Kind: worker.EventDataLost, Err: errors.New("it is gone")}, alarm.RegistryDataLost},
		{worker.Event{Kind: worker.EventOffline, Err: worker.ErrUnreachable}, alarm.RegistryUnreachable},
	} {
		var log bytes.Buffer
		events := testLog(t, &log)
		events.worker(test.event)
		require.Contains(t, log.String(), fmt.Sprintf(`"alarm":%q`, test.code), test.event.Kind)
	}
	for _, kind := range []worker.EventKind{worker.EventNoCluster, worker.EventWatching, worker.EventSettling} {
		var log bytes.Buffer
		events := testLog(t, &log)
		events.worker(worker.Event{Kind: kind, Err: errors.New("why it waits")})
		require.NotContains(t, log.String(), `"alarm"`, kind)
		require.Contains(t, log.String(), "why it waits", kind)
		require.NotEmpty(t, events.waitsFor(), kind)
	}
}

// testLog is an eventLog that writes to log.
func testLog(t *testing.T, log *bytes.Buffer) *eventLog {
	t.Helper()
	logger := zerolog.New(log)
	alarms, err := alarm.New(alarm.Config{Log: logger, Registerer: prometheus.NewRegistry(), Clock: clocktest.New(clitest.Now)})
	require.NoError(t, err)
	return &eventLog{log: logger, alarms: alarms}
}
