package proctest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	// Tests of another module need not know what leafd is built with.
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/leafd/leafd").CombinedOutput()
	root := strings.TrimSpace(string(out))
	if err != nil {
		return "", errors.Join(fmt.Errorf("%w\n%s", err, out), os.RemoveAll(dir))
	}
	// Without the profile, with which a build takes a minute more, and without symbols, as tests are linked.
	cmd := exec.Command("go", "build", "-pgo=off", "-ldflags=-s -w", "-o", path, "./cmd/leafd")
	cmd.Dir = root
	out, err = cmd.CombinedOutput()
	if err != nil {
		return "", errors.Join(fmt.Errorf("%w\n%s", err, out), os.RemoveAll(dir))
	}
	return path, nil
}
