package daemon

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/alarm"
	"github.com/leafd/leafd/server/state"
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
