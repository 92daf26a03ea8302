package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/chaos/mutants"
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
