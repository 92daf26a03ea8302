package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/worker"
)

// TestClockVerdict has offsets to the nanosecond, which no real peer has.
func TestClockVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		offsets []time.Duration
		behind  time.Duration
		resumes bool
		want    string
		says    string
	}{
		{"just inside", []time.Duration{5*time.Second - 1}, 0, false, inspect.Fine, ""},
		{"at the threshold", []time.Duration{5 * time.Second}, 0, false, inspect.Refused, "it is 5s behind the peers' clocks"},
		{"behind us", []time.Duration{-5 * time.Second}, 0, false, inspect.Refused, "it is 5s ahead of the peers' clocks"},
		{"nobody", nil, 0, false, inspect.Unknown, ""},
		{"nobody, and behind the record", nil, time.Millisecond, false, inspect.Refused, "it is 1ms behind"},
		{"both", []time.Duration{time.Hour}, time.Second, false, inspect.Refused, "; and it is 1s behind"},
		{"one peer, and a record", []time.Duration{5 * time.Second}, 0, true, inspect.Undecided, ""},
		{"two peers, and a record", []time.Duration{5 * time.Second, time.Hour}, 0, true, inspect.Refused, "it is 5s behind the peers' clocks"},
		{"peers that differ, to either side", []time.Duration{-time.Hour, time.Hour}, 0, false, inspect.Undecided, ""},
		{"one of three", []time.Duration{0, time.Hour, time.Millisecond}, 0, false, inspect.Fine, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const now = clock.Millis(1_800_000_000_000)
			var samples []clock.Sample
			for _, offset := range tc.offsets {
				samples = append(samples, clock.Sample{Address: "10.0.0.1:8080", Offset: offset})
			}
			record := worker.Record{Timestamp: now.Add(tc.behind)}
			if tc.resumes {
				record.Cluster = "c"
			}
			panel := clock.Panel{Estimator: clock.Median, Threshold: 5 * time.Second}
			check := inspect.JudgeClock(panel, samples, record, now)
			require.Equal(t, tc.want, check.Verdict)
			require.Equal(t, tc.want == inspect.Undecided, strings.Contains(check.Warning, "no majority"))
			if tc.says == "" {
				require.NoError(t, check.Refusal)
				return
			}
			require.ErrorIs(t, check.Refusal, worker.ErrClockRefused)
			require.ErrorContains(t, check.Refusal, tc.says)
		})
	}
}
