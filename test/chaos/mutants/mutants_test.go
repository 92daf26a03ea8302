package mutants

import (
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A mutant that no longer fits the source, or doesn't build, would not be found, and
// nothing would tell.
func TestEachMutantFits(t *testing.T) {
	names := map[string]bool{}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			require.False(t, names[m.Name])
			names[m.Name] = true
			_, err := m.Overlay("../../..", t.TempDir())
			require.NoError(t, err)
		})
	}
}

// Mutants are built together where their edits don't meet: they are as many builds as the text with the most of them.
func TestEachMutantBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles what leafd is made of, some times")
	}
	var groups []Mutant
	for _, m := range All() {
		at := slices.IndexFunc(groups, func(group Mutant) bool {
			group.Edits = slices.Concat(group.Edits, m.Edits)
			_, err := group.Overlay("../../..", t.TempDir())
			return err == nil
		})
		if at < 0 {
			groups = append(groups, m)
			continue
		}
		groups[at].Edits = slices.Concat(groups[at].Edits, m.Edits)
	}
	for _, group := range groups {
		overlay, err := group.Overlay("../../..", t.TempDir())
		require.NoError(t, err)
		out, err := exec.Command("go", "build", "-pgo=off", "-overlay", overlay, "../../../cmd/leafd/internal/daemon").CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.Less(t, len(groups), len(All())/2)
}

func TestEditThatNoLongerFits(t *testing.T) {
	for name, m := range map[string]Mutant{
		"gone":     {Name: "x", Edits: []Edit{{"go.mod", "nothing like this", ""}}},
		"no file":  {Name: "x", Edits: []Edit{{"nowhere.go", "a", ""}}},
		"too many": {Name: "x", Edits: []Edit{{"go.mod", "github.com/", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Overlay("../../..", t.TempDir())
			require.Error(t, err)
		})
	}
}
