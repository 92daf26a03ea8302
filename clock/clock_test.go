package clock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		move func(*clocktest.Fake)
		want clock.Step
	}{
		"time passes":        {func(f *clocktest.Fake) { f.Advance(time.Hour) }, clock.Step{}},
		"ahead":              {func(f *clocktest.Fake) { f.Step(time.Minute) }, clock.Step{By: time.Minute}},
		"back":               {func(f *clocktest.Fake) { f.Step(-time.Minute) }, clock.Step{By: -time.Minute}},
		"suspend":            {func(f *clocktest.Fake) { f.Suspend(time.Hour) }, clock.Step{Suspended: time.Hour}},
		"stepped in a sleep": {func(f *clocktest.Fake) { f.Suspend(time.Hour); f.Step(time.Minute) }, clock.Step{By: time.Minute, Suspended: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			f := clocktest.New(time.Unix(1_700_000_000, 0))
			before := f.Read()
			f.Advance(3 * time.Second)
			tt.move(f)
			require.Equal(t, tt.want, clock.Judge(before, f.Read()))
		})
	}
}

// Every clock of this machine moves on, and none of them is judged to have stepped.
func TestSystem(t *testing.T) {
	clk := clock.System()
	before := clk.Read()
	for _, d := range []time.Duration{time.Microsecond, time.Millisecond, 25 * time.Millisecond} {
		start := clk.Mono()
		require.NoError(t, clk.Sleep(t.Context(), d))
		require.GreaterOrEqual(t, clk.Mono()-start, d, "slept less than asked")
	}
	after := clk.Read()
	require.Greater(t, after.Mono, before.Mono)
	require.Greater(t, after.Boot, before.Boot)
	step := clock.Judge(before, after)
	// The clocks are read one after the other, and a busy machine may keep us waiting in between.
	require.Less(t, step.By.Abs(), time.Minute)
	require.Less(t, step.Suspended, time.Minute)
}

func TestSystemSleepStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, clock.System().Sleep(ctx, time.Hour), context.Canceled)
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, clock.System().Sleep(ctx, time.Hour), context.DeadlineExceeded)
}
