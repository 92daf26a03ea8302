package proctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var leafd = Shared[string]{Launch: buildLeafd, Remove: func(path string) error { return os.RemoveAll(filepath.Dir(path)) }}

// Leafd returns the path of a leafd built from this tree, once for the tests of a
// package; -short skips the test.
func Leafd(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs leafd")
	}
	return leafd.Get(t)
}

// RemoveLeafdAfter returns a Runner that runs m, and then removes what Leafd has built.
func RemoveLeafdAfter(m Runner) Runner { return leafd.StopAfter(m) }

func buildLeafd() (string, error) {
	dir, err := os.MkdirTemp("", "leafd-build-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "leafd")
	// Without the profile, with which a build takes a minute more, and without symbols, as tests are linked.
	out, err := exec.Command("go", "build", "-pgo=off", "-ldflags=-s -w", "-o", path, "github.com/leafd/leafd/cmd/leafd").CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("%w\n%s", err, out), os.RemoveAll(dir))
	}
	return path, nil
}
