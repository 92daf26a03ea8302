package main

import (
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock/clocktest"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	b := fromJSON[build](t, leafd(t, "version", "-o", "json").ok(t))
	require.Equal(t, runtime.Version(), b.Go)
	require.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, b.Platform)
	text := leafd(t, "version").ok(t)
	for _, field := range []string{b.Version, b.Commit, b.Date, b.Go, b.Platform} {
		require.NotEmpty(t, field)
		require.Contains(t, text, field)
	}
}

func TestMakeBuild(t *testing.T) {
	t.Parallel()
	recorded := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.9.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-21T10:00:00Z"}, {Key: "vcs.modified", Value: "true"}},
	}
	for _, tc := range []struct {
		name    string
		stamped build
		info    *debug.BuildInfo
		want    build
	}{
		{"stamped", build{Version: "1", Commit: "c", Date: "d"}, recorded, build{Version: "1", Commit: "c", Date: "d"}},
		{"recorded", build{}, recorded, build{Version: "v0.9.0", Commit: "abc (modified)", Date: "2026-11-21T10:00:00Z"}},
		{"neither", build{}, &debug.BuildInfo{}, build{Version: "unknown", Commit: "unknown", Date: "unknown"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.want.Go, tc.want.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
			require.Equal(t, tc.want, makeBuild(tc.stamped, tc.info))
		})
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, leafd(t, "completion", shell).ok(t), "leafd", shell)
	}
	require.Contains(t, cli{args: []string{"__complete", "serve", "--adv"}}.run(t).stdout, "--advertise")
}

// fullDisk fails every write.
type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	url, _ := served(t, 200, `{"ids":["1"]}`)
	for _, args := range [][]string{
		{"version"},
		{"version", "-o", "json"},
		{"config"},
		{"config", "-o", "yaml"},
		{"config", "--sample"},
		{"id", "decode", "1"},
		{"id", "at", "now"},
		{"id", "next", "--url", url},
		{"segment", "create", "a", "--data-dir", t.TempDir()},
	} {
		var stderr strings.Builder
		code := run(t.Context(), process{Args: args, Stdin: strings.NewReader(""), Stdout: fullDisk{}, Stderr: &stderr, Clock: clocktest.New(testNow)})
		require.Equal(t, exitFailure, code, args)
		require.Contains(t, stderr.String(), "standard output: no space left", args)
	}
	require.Equal(t, exitOK, run(t.Context(), process{Args: []string{"version"}, Stdout: io.Discard, Stderr: io.Discard, Clock: clocktest.New(testNow)}))
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{"A": "b=c", "E": ""}, environ([]string{"A=b=c", "E=", "nonsense"}))
}
