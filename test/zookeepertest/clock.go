package zookeepertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// StartSkewed is Start of a server with a wall clock that is off by d, until SetClock says
// otherwise. Its monotonic clock, which ends sessions, is the machine's.
func StartSkewed(t testing.TB, d time.Duration, lines ...string) *Server {
	t.Helper()
	proctest.SkipInShort(t)
	server, err := launch(&Server{skew: d}, 0, lines...)
	proctest.Must(t, err)
	server.RemoveAfter(t)
	return server
}

// SetClock stops the server, and starts it again with a wall clock that is off by d.
func (s *Server) SetClock(t testing.TB, d time.Duration) {
	t.Helper()
	s.Stop(t)
	s.skew = d
	s.Restart(t)
}

// skewed has cmd, a server's, read its wall clock through libfaketime where that is to be
// off. Without its mending of glibc's waits by the monotonic clock, which glibc needs no more:
// with it, Java's threads wake each other up to seconds late.
func (s *Server) skewed(cmd *exec.Cmd) error {
	if s.skew == 0 {
		return nil
	}
	library, err := faketime()
	cmd.Env = append(os.Environ(), "LD_PRELOAD="+library, fmt.Sprintf("FAKETIME=%+.3f", s.skew.Seconds()), "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_FORCE_MONOTONIC_FIX=0")
	return err
}

// faketime returns the path of the library, for programs with several threads.
func faketime() (string, error) {
	for _, pattern := range []string{
		"/usr/lib/*/faketime/libfaketimeMT.so.1", // Debian
		"/usr/lib*/faketime/libfaketimeMT.so.1",
	} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errors.New("zookeepertest: libfaketime is not installed: run make deps, or apt-get install libfaketime")
}
