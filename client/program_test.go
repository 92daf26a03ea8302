package client

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProgramOfThePage runs the program of docs/clients/go.md.
func TestProgramOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/clients/go.md")
	require.NoError(t, err)
	_, program, ok := strings.Cut(string(page), "```go\n")
	require.True(t, ok)
	program, _, _ = strings.Cut(program, "```\n")
	path := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(path, []byte(program), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "run", path, newFake(t).URL).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "1\n[2 3 4 5 6 7 8 9 10]\n", string(out))
}
