package state

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

func TestStatesAreComplete(t *testing.T) {
	for _, s := range states {
		require.Error(t, s.Err)
		require.Equal(t, s.Code != "", s.Message != "" && s.RetryAfter > 0, s.Err)
		require.Equal(t, s.Alarm != "", s.Start != "", s.Err)
		require.Equal(t, s.Worker != "", s.Issuing != "", s.Err)
	}
	require.ElementsMatch(t, []string{"starting", "live", "not_issuing", "not_ready", "fenced"}, Workers())
}

func TestFirstMatchCounts(t *testing.T) {
	wrap := func(errs ...error) error { return fmt.Errorf("x: %w", errors.Join(errs...)) }
	for _, test := range []struct {
		err     error
		issuing string
		exit    int
		alarm   string
	}{
		{nil, "issues", 0, ""},
		{errors.New("another"), "REFUSES", 0, ""},
		{wrap(snowflake.ErrCeilingReached, worker.ErrFenced, worker.ErrUnreachable), "FENCED, issues nothing until a new life begins", 4, "registry_unreachable"},
		{wrap(worker.ErrFenced, worker.ErrExhausted), "FENCED, issues nothing until a new life begins", 4, "workers_exhausted"},
		{wrap(snowflake.ErrCeilingReached, worker.ErrClockJumped), "REFUSES", 0, ""},
		{wrap(snowflake.ErrCeilingReached, worker.ErrLeaseOver), "REFUSES, its lease is over", 0, ""},
		{wrap(snowflake.ErrCeilingReached, worker.ErrUnreachable), "REFUSES, its ceiling can't be recorded", 0, "registry_unreachable"},
		{wrap(worker.ErrHeld, worker.ErrClockRefused), "REFUSES", 3, "clock_refused"},
		{wrap(worker.ErrLocked), "REFUSES", 4, ""},
	} {
		refused, _ := RefusedStart(test.err)
		require.Equal(t, test.issuing, OfWorker(test.err).Issuing, test.err)
		require.Equal(t, test.exit, Exit(test.err), test.err)
		require.Equal(t, test.alarm, refused.Alarm, test.err)
	}
}
