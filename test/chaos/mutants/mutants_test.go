package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
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

func TestEachMutantBuilds(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles packages for each")
	}
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			overlay, err := m.Overlay("../../..", t.TempDir())
			require.NoError(t, err)
			args := []string{"build", "-o", os.DevNull, "-overlay", overlay}
			seen := map[string]bool{}
			for _, e := range m.Edits {
				if dir := "../../../" + filepath.Dir(e.File); !seen[dir] {
					seen[dir] = true
					args = append(args, dir)
				}
			}
			out, err := exec.Command("go", args...).CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
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
