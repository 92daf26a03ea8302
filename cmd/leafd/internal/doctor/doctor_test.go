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
	results := run(t.Context(), []check{
		{name: "a", limit: time.Minute, run: func(_ context.Context, r *report) {
			<-second // they run side by side
			r.OK("a", "%d", 1)
			r.Warn("b", "odd", "fix it")
		}},
		{name: "c", limit: time.Minute, run: func(_ context.Context, r *report) {
			r.Fail("c", context.Canceled, "")
			close(second)
		}},
		{name: "none", limit: time.Minute, run: func(context.Context, *report) {}},
	})
	require.Equal(t, []Result{
		{Check: "a", Status: OK, Found: "1"},
		{Check: "b", Status: Warn, Found: "odd", Do: "fix it"},
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

// doctor.D1, doctor.D2, doctor.D3.
func TestCheckThatHangs(t *testing.T) {
	dead := make(chan struct{})
	left := make(chan struct{})
	results := run(t.Context(), []check{
		{name: "deaf", limit: 10 * time.Millisecond, run: func(_ context.Context, r *report) {
			defer close(left)
			r.OK("deaf-part", "this much was seen")
			<-dead
			r.OK("deaf-part", "too late")
		}},
		{name: "obedient", limit: 10 * time.Millisecond, run: func(ctx context.Context, r *report) {
			<-ctx.Done()
			r.Fail("obedient-part", ctx.Err(), "")
		}},
		{name: "silent", limit: 10 * time.Millisecond, run: func(ctx context.Context, r *report) {
			<-ctx.Done()
			r.OK("silent-part", "what it got to")
		}},
		{name: "quick", limit: time.Minute, run: func(_ context.Context, r *report) { r.OK("quick", "fine") }},
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
	results := run(t.Context(), []check{{name: "a", limit: time.Minute, run: func(_ context.Context, r *report) { r.Fail("a", sentinel, "") }}})
	require.ErrorIs(t, results[0].Err, sentinel)
}
