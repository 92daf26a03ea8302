package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestResultsKeepTheOrderOfTheChecks(t *testing.T) {
	second := make(chan struct{})
	results := Run(t.Context(), []Check{
		{Name: "a", Limit: time.Minute, Run: func(_ context.Context, r *Report) {
			<-second // they run side by side
			r.OK("a", "%d", 1)
			r.Warn("b", "odd", "mend it")
		}},
		{Name: "c", Limit: time.Minute, Run: func(_ context.Context, r *Report) {
			r.Fail("c", context.Canceled, "")
			close(second)
		}},
		{Name: "none", Limit: time.Minute, Run: func(context.Context, *Report) {}},
	})
	require.Equal(t, []Result{
		{Check: "a", Status: OK, Found: "1"},
		{Check: "b", Status: Warn, Found: "odd", Do: "mend it"},
		{Check: "c", Status: Fail, Found: "context canceled", Err: context.Canceled},
	}, results)
	worst, first := Worst(results)
	require.Equal(t, Fail, worst)
	require.Equal(t, "c", first.Check)
	worst, _ = Worst(results[:2])
	require.Equal(t, Warn, worst)
	worst, first = Worst(nil)
	require.Equal(t, OK, worst)
	require.Zero(t, first)
}

// D1, D2, D3.
func TestCheckThatHangs(t *testing.T) {
	dead := make(chan struct{})
	left := make(chan struct{})
	results := Run(t.Context(), []Check{
		{Name: "deaf", Limit: 10 * time.Millisecond, Run: func(_ context.Context, r *Report) {
			defer close(left)
			r.OK("deaf-part", "this much was seen")
			<-dead
			r.OK("deaf-part", "too late")
		}},
		{Name: "obedient", Limit: 10 * time.Millisecond, Run: func(ctx context.Context, r *Report) {
			<-ctx.Done()
			r.Fail("obedient-part", ctx.Err(), "")
		}},
		{Name: "silent", Limit: 10 * time.Millisecond, Run: func(ctx context.Context, r *Report) {
			<-ctx.Done()
			r.OK("silent-part", "what it got to")
		}},
		{Name: "quick", Limit: time.Minute, Run: func(_ context.Context, r *Report) { r.OK("quick", "fine") }},
	})
	var got [][2]string
	for _, r := range results {
		got = append(got, [2]string{r.Check, string(r.Status)})
	}
	require.Equal(t, [][2]string{
		{"deaf-part", "ok"}, {"deaf", "fail"}, {"obedient-part", "fail"}, {"silent-part", "ok"}, {"silent", "fail"}, {"quick", "ok"},
	}, got)
	require.Contains(t, results[1].Found, "not finished within 10ms")
	close(dead)
	<-left
	require.Len(t, results, 6)
}

func TestFailKeepsItsError(t *testing.T) {
	sentinel := errors.New("x")
	results := Run(t.Context(), []Check{{Name: "a", Limit: time.Minute, Run: func(_ context.Context, r *Report) { r.Fail("a", sentinel, "") }}})
	require.ErrorIs(t, results[0].Err, sentinel)
}
