// Package doctest compares the parts of the manual that are made from tables of the code with
// what these tables make. `make docs` writes them again.
package doctest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write is set by `make docs`.
const Write = "LEAFDTEST_WRITE_DOCS"

// Current fails unless each part of the page, from the line "<!-- NAME: written by make docs -->"
// to the line "<!-- end -->", is what parts has under its name.
func Current(t testing.TB, path string, parts map[string]string) {
	t.Helper()
	committed, err := os.ReadFile(path)
	require.NoError(t, err)
	page := string(committed)
	for name, text := range parts {
		begin, end := "<!-- "+name+": written by make docs -->\n", "<!-- end -->\n"
		before, rest, ok := strings.Cut(page, begin)
		require.True(t, ok, "%s has no line %s", path, begin)
		_, rest, ok = strings.Cut(rest, end)
		require.True(t, ok, "%s does not end %s", path, name)
		page = before + begin + text + end + rest
	}
	if os.Getenv(Write) != "" {
		require.NoError(t, os.WriteFile(path, []byte(page), 0o644))
		return
	}
	require.Equal(t, page, string(committed), "%s is not what the code makes it: run make docs", path)
}
