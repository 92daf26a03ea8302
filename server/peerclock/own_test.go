package peerclock_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/test/clocktest"
)

// On a clock that the peer moves: exact figures, our own steps, our own sleep.
func TestOwnClockWhileAsking(t *testing.T) {
	const base = 1_700_000_000_000
	for _, test := range []struct {
		name   string
		first  func(*clocktest.Fake) // during the first exchange
		later  func(*clocktest.Fake) // during any later one
		asked  int64
		offset time.Duration
		rtt    time.Duration
		is     error
		text   string
	}{
		{"nothing", nil, nil, 1, 500 * time.Microsecond, 0, nil, ""},
		{"a round trip", func(f *clocktest.Fake) { f.Advance(40 * time.Millisecond) }, nil, 1, -19_500 * time.Microsecond, 40 * time.Millisecond, nil, ""},
		{"a part of a millisecond", func(f *clocktest.Fake) { f.Advance(400 * time.Microsecond) }, nil, 1, 300 * time.Microsecond, 400 * time.Microsecond, nil, ""},
		{"a step once", func(f *clocktest.Fake) { f.Step(time.Hour) }, nil, 2, -time.Hour + 500*time.Microsecond, 0, nil, ""},
		{"a step back once", func(f *clocktest.Fake) { f.Step(-time.Hour) }, nil, 2, time.Hour + 500*time.Microsecond, 0, nil, ""},
		{"a suspend once", func(f *clocktest.Fake) { f.Suspend(time.Hour) }, nil, 2, -time.Hour + 500*time.Microsecond, 0, nil, ""},
		{"steps each time", func(f *clocktest.Fake) { f.Step(time.Second) }, func(f *clocktest.Fake) { f.Step(-time.Second) }, 2, 0, 0, peerclock.ErrStepped, "-1s"},
		{"a step, then a suspend", func(f *clocktest.Fake) { f.Step(time.Second) }, func(f *clocktest.Fake) { f.Suspend(time.Second) }, 2, 0, 0, peerclock.ErrStepped, "1s of sleep"},
		{"what a busy machine's reading may do", func(f *clocktest.Fake) { f.Step(50 * time.Millisecond) }, nil, 1, -49_500 * time.Microsecond, 0, nil, ""},
		{"too long a trip", func(f *clocktest.Fake) { f.Advance(time.Minute + 1) }, nil, 1, 0, 0, peerclock.ErrUnreachable, "1m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			clk := clocktest.New(time.UnixMilli(base))
			var asked atomic.Int64
			peer := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				switch n := asked.Add(1); {
				case n == 1 && test.first != nil:
					test.first(clk)
				case n > 1 && test.later != nil:
					test.later(clk)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":%d}`, base)
			})
			s := askOne(t, newClient(t, func(cfg *peerclock.Config) { cfg.Clock = clk }), peer)
			require.Equal(t, test.asked, asked.Load())
			require.Equal(t, test.offset, s.Offset)
			require.Equal(t, test.rtt, s.RTT)
			if test.is == nil {
				require.NoError(t, s.Err)
				return
			}
			require.ErrorIs(t, s.Err, test.is)
			require.ErrorContains(t, s.Err, test.text)
		})
	}
}
