package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/chaos/mutants"
	"github.com/leafd/leafd/test/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"none":         nil,
		"unknown":      {"calm"},
		"unknown flag": {"run", "-weather", "fine"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, run(t.Context(), args, io.Discard, io.Discard), errUsage)
		})
	}
	for name, mix := range map[string]string{"weight": "kill -9=many", "no weight": "kill -9=0", "fault": "sunshine"} {
		t.Run(name, func(t *testing.T) {
			_, err := newPlanner(1, mix)
			require.ErrorIs(t, err, errUsage)
		})
	}
}

func rounds(t *testing.T, seed uint64, mix string) (all [][]fault) {
	t.Helper()
	p, err := newPlanner(seed, mix)
	require.NoError(t, err)
	for range 400 {
		all = append(all, p.next())
	}
	return all
}

// One seed is one plan, of every kind, in which no two faults of a round hit the same daemon or server.
func TestPlan(t *testing.T) {
	plan, times, several := rounds(t, 7, ""), map[string]int{}, 0
	for i, again := range rounds(t, 7, "") {
		require.Len(t, plan[i], len(again))
		for j, f := range plan[i] {
			require.Equal(t, f.String(), again[j].String())
			times[f.name]++
			require.True(t, f.least <= f.hold && f.hold <= f.most, f)
			require.False(t, f.solo && len(again) > 1, again)
			for _, other := range plan[i][:j] {
				require.False(t, f.meets(other), again)
				several++
			}
		}
	}
	require.Len(t, times, len(kinds()))
	require.Greater(t, several, 50)
	require.NotEqual(t, plan[0][0].String(), rounds(t, 8, "")[0][0].String())
}

func TestMix(t *testing.T) {
	times := map[string]int{}
	for _, round := range rounds(t, 1, "kill -9=3; clock back") {
		for _, f := range round {
			times[f.name]++
		}
	}
	require.Len(t, times, 2)
	require.Greater(t, times["kill -9"], 2*times["clock back"])
}

// Each mutant is looked for by faults that there are, or by a test.
func TestMutantsHaveTheirSearch(t *testing.T) {
	for _, m := range mutants.All() {
		_, err := newPlanner(m.Seed, m.Mix)
		require.NoError(t, err, m.Name)
		require.NotEqual(t, m.Mix == "", strings.HasPrefix(m.Test, "./") == false, m.Name)
	}
}

// A daemon that no fault hits, and that refuses, breaks a rule; so does an ID that comes twice.
func TestRules(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "7\n")
	}))
	defer server.Close()
	process, err := proctest.StartDaemon(proctest.Config{Command: []string{"true"}})
	require.NoError(t, err)
	<-process.Done()
	c := &chaos{}
	c.ctx, c.fail = context.WithCancelCause(t.Context())
	d := &daemon{c: c, name: "leafd1", addr: server.Listener.Addr().String()}
	d.now.Store(&life{process, 3})
	cl := newClient(d)
	defer cl.http.Close()
	ask := func(times int) {
		for range times {
			_ = cl.ask(snowflake, 1, true)
		}
	}
	d.hit.Store(true)
	ask(mostRefused)
	d.hit.Store(false)
	ask(mostRefused - 1)
	require.NoError(t, c.ctx.Err())
	ask(1)
	require.ErrorIs(t, context.Cause(c.ctx), errBroken)
	require.ErrorContains(t, context.Cause(c.ctx), "leafd1, which no fault hits, doesn't serve :snowflake: refused: status 503")
	require.ErrorContains(t, c.checker.Compare(), "7 was issued twice, by processes 3 and 3", "of refusals, too")
}
