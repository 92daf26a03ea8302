package cli

import (
	"context"
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
		{"at the threshold", []time.Duration{5 * time.Second}, 0, false, inspect.Refused, "it is 5s behind its peers'"},
		{"behind us", []time.Duration{-5 * time.Second}, 0, false, inspect.Refused, "it is 5s ahead of its peers'"},
		{"nobody", nil, 0, false, inspect.Unknown, ""},
		{"nobody, and behind the record", nil, time.Millisecond, false, inspect.Refused, "it is 1ms behind"},
		{"both", []time.Duration{time.Hour}, time.Second, false, inspect.Refused, "; and it is 1s behind"},
		{"one peer, and a record", []time.Duration{5 * time.Second}, 0, true, inspect.Undecided, ""},
		{"two peers, and a record", []time.Duration{5 * time.Second, time.Hour}, 0, true, inspect.Refused, "it is 5s behind its peers'"},
		{"peers that differ, to either side", []time.Duration{-time.Hour, time.Hour}, 0, false, inspect.Undecided, ""},
		{"one of three", []time.Duration{0, time.Hour, time.Millisecond}, 0, false, inspect.Fine, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const now = clock.Millis(1_800_000_000_000)
			check := inspect.ClockCheck{Threshold: 5 * time.Second, Estimator: clock.Median}
			var answers asked
			for _, offset := range tc.offsets {
				check.Peers = append(check.Peers, inspect.CheckedPeer{Address: "10.0.0.1:8080"})
				answers = append(answers, clock.Sample{Offset: offset})
			}
			check.Record.Timestamp = now.Add(tc.behind)
			if tc.resumes {
				check.Record.Cluster = "c"
			}
			check.Probe(t.Context(), answers, func() clock.Millis { return now })
			require.Equal(t, tc.want, check.Word())
			require.Equal(t, tc.want == inspect.Undecided, strings.Contains(check.Warning(), "no majority"))
			if tc.says == "" {
				require.NoError(t, check.Refusal())
				return
			}
			require.ErrorIs(t, check.Refusal(), worker.ErrClockRefused)
			require.ErrorContains(t, check.Refusal(), tc.says)
		})
	}
}

// asked is a Prober with the answers made up.
type asked []clock.Sample

func (a asked) Probe(_ context.Context, addresses []string) []clock.Sample { return a[:len(addresses)] }
