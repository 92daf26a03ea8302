package zookeepertest

import (
	"errors"
	"os"
	"testing"

	"github.com/leafd/leafd/test/proctest"
)

// Backup is what a server had on disk at one moment: an operator's copy of its data
// directory. It is gone with the test that took it.
type Backup struct{ directory string }

// Backup copies what the server has on disk. One that runs is paused meanwhile, so that the
// copy is of one moment; its clients' sessions outlive that.
func (s *Server) Backup(t testing.TB) Backup {
	t.Helper()
	b := Backup{t.TempDir()}
	if s.Running() {
		s.Pause(t)
		defer s.Resume(t)
	}
	proctest.Must(t, s.saveTo(b.directory))
	return b
}

// Restore puts a backup of the server in place of what it has on disk, and starts it: what
// was written since is gone, and clients that have seen that are refused until they give
// their sessions up.
func (s *Server) Restore(t testing.TB, b Backup) {
	t.Helper()
	s.Kill(t)
	proctest.Must(t, s.loadFrom(b.directory))
	s.Restart(t)
}

// saveTo copies the database to directory, in place of what is there.
func (s *Server) saveTo(directory string) error {
	return errors.Join(os.RemoveAll(directory), os.CopyFS(directory, os.DirFS(s.database())))
}

// loadFrom copies it back.
func (s *Server) loadFrom(directory string) error {
	return errors.Join(s.empty(), os.CopyFS(s.database(), os.DirFS(directory)))
}
