package condition

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// Each row is whole.
func TestTableIsWhole(t *testing.T) {
	for _, row := range table {
		if row.Code == "" {
			require.NotZero(t, row.Exit, row.Is)
			continue
		}
		require.GreaterOrEqual(t, row.Severity.rank(), 0, row.Code)
		require.NotEmpty(t, row.Headline, row.Code)
		require.Equal(t, row.Severity != Note, row.Action != "", row.Code)
		if row.Stops != 0 {
			require.Positive(t, row.RetryAfter, row.Code)
		}
	}
}

func TestFirstMatchCounts(t *testing.T) {
	wrap := func(errs ...error) error { return fmt.Errorf("x: %w", errors.Join(errs...)) }
	for _, test := range []struct {
		err  error
		code Code
		exit int
	}{
		{errors.New("another"), "", 0},
		{wrap(worker.ErrFenced, worker.ErrExhausted), "workers_closed", 5},
		{wrap(snowflake.ErrCeilingReached, worker.ErrClockJumped), "clock_jumped", 0},
		{wrap(snowflake.ErrCeilingReached, worker.ErrLeaseOver), "lease_over", 0},
		{wrap(worker.ErrHeld, worker.ErrClockRefused), "clock_refused", 3},
		{wrap(worker.ErrFenced, ErrFencedForGood), "worker_fenced", 4},
		{worker.ErrUnreachable, "registry_unreachable", 0},
		{worker.ErrLocked, "", 4},
	} {
		found := Unfit(test.err)
		require.Equal(t, test.code != "", len(found) == 1, test.err)
		for _, c := range found {
			require.Equal(t, test.code, c.Code, test.err)
			require.Equal(t, Snowflake|Daemon, c.Stops, test.err)
		}
		require.Equal(t, test.exit, Exit(test.err), test.err)
	}
}

func TestTheWorstIsFirst(t *testing.T) {
	all := []Condition{
		ByCode(AlarmsUndelivered, "", nil), ByCode(SegmentBadRow, "b", nil), ByCode(SegmentBadRow, "a", nil), ByCode("peers_disagree", "", nil), ByCode(StartingUp, "", nil), ByCode("worker_fenced", "", nil),
	}
	Sort(all)
	var got []string
	for _, c := range all {
		got = append(got, string(c.Code)+c.Subject)
	}
	require.Equal(t, []string{"worker_fenced", "peers_disagree", "starting", "segment_bad_rowa", "segment_bad_rowb", "alarms_undelivered"}, got)
	require.Equal(t, "worker_fenced", WorkerState(all))
	require.Equal(t, Active, WorkerState(nil))
	require.True(t, slices.ContainsFunc(Rows(), func(i Info) bool { return i.Code == "workers_closed" }))
}
