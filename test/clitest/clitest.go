// Package clitest has what the tests of the commands share: what a run of leafd
// left behind, and the files that runs are given.
package clitest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
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

// Said is what it wrote on standard error, without the line that a command writes where it has waited for a while: on a busy
// machine any may.
func (o Outcome) Said() string { return waiting.ReplaceAllString(o.Stderr, "") }

var waiting = regexp.MustCompile(`(?m)^leafd: waiting for .*\n`)

// OK requires that a run went well and silently, and returns what it printed.
func (o Outcome) OK(t *testing.T) string {
	t.Helper()
	require.Zero(t, o.Code, o.Stderr)
	require.Empty(t, o.Said())
	return o.Stdout
}

// Failed requires a run that failed with code, printed nothing, and said what.
func (o Outcome) Failed(t *testing.T, code int, says ...string) {
	t.Helper()
	require.Equal(t, code, o.Code, "stdout %q stderr %q", o.Stdout, o.Stderr)
	require.Empty(t, o.Stdout)
	said := o.Said()
	last := said[strings.LastIndexByte(strings.TrimSuffix(said, "\n"), '\n')+1:]
	if !strings.HasPrefix(last, `{"level":"fatal","error":`) { // a daemon's, in its log
		require.True(t, strings.HasPrefix(said, "leafd: "), said)
		require.Equal(t, 1, strings.Count(said, "leafd: "), "said once: %q", said)
	}
	require.NotContains(t, said, "Usage:")
	for _, s := range says {
		require.Contains(t, said, s)
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
