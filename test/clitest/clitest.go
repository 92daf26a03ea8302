// Package clitest has what the tests of the commands share: what a run of leafd
// left behind, and the files that runs are given.
package clitest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Now is what the clock of the tests shows.
var Now = time.Date(2026, 11, 21, 10, 0, 0, 123_000_000, time.UTC)

// AdminToken is what the daemons of the tests take.
const AdminToken = "sixteen-bytes-or-more"

// Outcome is what a run left behind.
type Outcome struct {
	Code   int // of the exit
	Stdout string
	Stderr string
}

// OK requires that a run went well and silently, and returns what it printed.
func (o Outcome) OK(t *testing.T) string {
	t.Helper()
	require.Zero(t, o.Code, o.Stderr)
	require.Empty(t, o.Stderr)
	return o.Stdout
}

// Failed requires a run that failed with code, printed nothing, and said what.
func (o Outcome) Failed(t *testing.T, code int, says ...string) {
	t.Helper()
	require.Equal(t, code, o.Code, "stdout %q stderr %q", o.Stdout, o.Stderr)
	require.Empty(t, o.Stdout)
	last := o.Stderr[strings.LastIndexByte(strings.TrimSuffix(o.Stderr, "\n"), '\n')+1:]
	if !strings.HasPrefix(last, `{"level":"fatal","error":`) { // a daemon's, in its log
		require.True(t, strings.HasPrefix(o.Stderr, "leafd: "), o.Stderr)
		require.Equal(t, 1, strings.Count(o.Stderr, "leafd: "), "said once: %q", o.Stderr)
	}
	require.NotContains(t, o.Stderr, "Usage:")
	for _, s := range says {
		require.Contains(t, o.Stderr, s)
	}
}

// FromJSON is what a command printed with -o json.
func FromJSON[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// WriteFile makes a file that only its owner reads, and returns its path.
func WriteFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// LockedBuffer is a buffer that one goroutine writes and another reads.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // mu protects
}

// Write implements io.Writer.
func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns what was written so far.
func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
