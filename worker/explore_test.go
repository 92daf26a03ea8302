package worker_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/exploretest"
	"github.com/leafd/leafd/worker"
)

// worlds are what is explored, two directories and one worker ID unless they say otherwise: all
// states, or all that so many events in a row lead to. Some of the second kind have all states
// where clocks show the time.
func worlds() map[string]*world {
	return map[string]*world{
		"whole":       {releases: true, endings: true},
		"shown":       {shown: true},
		"copies":      {copies: true},
		"forced":      {forces: true},
		"forcedAway":  {forces: true, away: true},
		"javas":       {java: true, ids: 2, releases: true, endings: true, exact: true},
		"roots":       {roots: true, exact: true},
		"faults":      {releases: true, lost: true, crashes: true, depth: 9},
		"late":        {releases: true, lost: true, late: true, depth: 8},
		"parent":      {losses: 1, partial: true, releases: true, endings: true, depth: 12},
		"wiped":       {losses: 1, wipe: true, releases: true, depth: 13},
		"copiesWiped": {losses: 1, copies: true, wipe: true, depth: 12},
		"recovered":   {losses: 1, restore: true, oneBak: true, releases: true, depth: 11},

		"faultsExactly":      {exact: true, releases: true, lost: true, crashes: true},
		"parentExactly":      {exact: true, losses: 1, partial: true, releases: true},
		"wipedExactly":       {exact: true, losses: 1, wipe: true, releases: true},
		"copiesWipedExactly": {exact: true, losses: 1, copies: true, wipe: true},
		"recoveredExactly":   {exact: true, losses: 1, restore: true, oneBak: true, releases: true, depth: 18},

		"unrecoveredExactly": {exact: true, losses: 1, alone: true, oneBak: true, releases: true, depth: 16},

		"twice":           {losses: 2, restore: true, oneBak: true, releases: true, depth: 9},
		"disturbed":       {losses: 1, restore: true, oneBak: true, releases: true, lost: true, crashes: true, depth: 6},
		"unrecovered":     {losses: 1, alone: true, oneBak: true, releases: true, depth: 11},
		"opened":          {losses: 1, restore: true, wipe: true, open: true, oneBak: true, releases: true, depth: 9},
		"leases":          {losses: 1, restore: true, oneBak: true, longer: 6, depth: 9},
		"looks":           {losses: 1, restore: true, oneBak: true, split: true, depth: 12},
		"three":           {dirs: 3, losses: 1, restore: true, oneBak: true, depth: 10},
		"unrecoveredLost": {losses: 1, alone: true, lost: true, exact: true, oneBak: true, depth: 13},
		"two":             {ids: 2, losses: 1, restore: true, oneBak: true, depth: 8},
		"twoUnrecovered":  {dirs: 3, ids: 2, exact: true, losses: 1, alone: true, oneBak: true, depth: 9},
	}
}

// visit explores w, and tells of it.
func visit(t *testing.T, w *world, bounds exploretest.Bounds) exploretest.Result[*state, event] {
	t.Helper()
	r := exploretest.Run(w, w.first(), bounds)
	t.Log(r)
	if r.Wrong != "" {
		t.Logf("\n%s", exploretest.Lines(r.Trace))
	}
	return r
}

// The first states of every world: no worker ID gives a time to two holders, and no holder loses
// its worker ID while its piece reaches well beyond its now.
func TestExploreFirstStates(t *testing.T) {
	t.Parallel()
	for name, w := range worlds() {
		t.Run(name, func(t *testing.T) { require.Empty(t, visit(t, w, exploretest.Bounds{States: 300}).Wrong) })
	}
}

// asked are the cells of Decide's table that w has come to.
func asked(w *world) (cells []string) {
	for _, c := range worker.Cells() {
		if w.cells[c.Row][c.Column].Load() > 0 {
			cells = append(cells, c.String())
		}
	}
	return cells
}

// All states within the bounds of every world, which are an event fewer than those of make explore. Every event happens, and every cell of Decide's
// table is asked but those that are named here.
func TestExplore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	fewer := 1
	if os.Getenv("LEAFDTEST_EXPLORE") != "" {
		fewer = 0
	}
	all := map[string]bool{}
	var happened [kindCount]int64
	for name, w := range worlds() {
		t.Run(name, func(t *testing.T) {
			r := visit(t, w, exploretest.Bounds{Depth: max(0, w.depth-fewer)})
			require.Empty(t, r.Wrong)
			require.True(t, r.Whole)
			require.Equal(t, w.depth == 0, r.Complete)
			t.Logf("asked: %q", asked(w))
		})
		for _, cell := range asked(w) {
			all[cell] = true
		}
		for k := range kindCount {
			happened[k] += w.kinds[k].Load()
		}
	}
	for k, n := range happened {
		t.Logf("%9d times: %s", n, kindNames[k])
		require.Positive(t, n, kindNames[k])
	}
	for _, c := range worker.Cells() {
		_, expected := unasked()[c.String()]
		require.Equal(t, expected, !all[c.String()], "%s is asked: %t", c, all[c.String()])
	}
}
