package sqlstore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/storetest"
)

// childPath is the variable that makes TestSQLiteChild a process that fetches.
const childPath = "SQLSTORE_TEST_CHILD_PATH"

// TestSQLiteChild is the other process of the tests below. On its own it makes
// sure that the process it would be is one that works.
func TestSQLiteChild(t *testing.T) {
	path, rounds := os.Getenv(childPath), 1_000_000 // until it is killed
	alone := path == ""
	if alone {
		path, rounds = filepath.Join(t.TempDir(), "segments.db"), 1
	}
	store := openSQLite(t, path)
	for range rounds {
		r, err := storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
		if err != nil && !alone {
			continue // on a slow disk the other process may have the file's lock for seconds
		}
		require.NoError(t, err)
		fmt.Printf("range %d %d\n", r.Lo, r.Hi)
	}
}

// runChild starts another process that fetches from path; it is killed when as
// many ranges as given were read from it. It returns what it told by then.
func runChild(t testing.TB, path string, ranges int) (told []segment.Range) {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	child := exec.CommandContext(ctx, binary, "-test.run=^TestSQLiteChild$")
	child.Env = append(os.Environ(), childPath+"="+path)
	output, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(output)
	for len(told) < ranges && lines.Scan() {
		var r segment.Range
		if _, err := fmt.Sscanf(lines.Text(), "range %d %d", &r.Lo, &r.Hi); err == nil {
			told = append(told, r)
		}
	}
	require.NoError(t, child.Process.Kill()) // SIGKILL, in the middle of its work
	for lines.Scan() {                       // what was on its way
		var r segment.Range
		if _, err := fmt.Sscanf(lines.Text(), "range %d %d", &r.Lo, &r.Hi); err == nil {
			told = append(told, r)
		}
	}
	require.Error(t, child.Wait(), "it was killed")
	require.GreaterOrEqual(t, len(told), ranges)
	return told
}

// TestSQLiteTwoProcesses: another process fetches from the same file and is
// killed, again and again, while this one goes on.
func TestSQLiteTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segments.db")
	f := startFetcher(t, openSQLite(t, path))
	var others []segment.Range
	for range 4 {
		others = append(others, runChild(t, path, 50)...)
		f.awaitRanges(t, 20)
	}
	f.end()
	requireDisjoint(t, append(others, f.ranges...))
}
