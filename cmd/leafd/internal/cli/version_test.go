package cli

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	b := clitest.FromJSON[Build](t, leafd(t, "version", "-o", "json").OK(t))
	require.Equal(t, runtime.Version(), b.Go)
	require.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, b.Platform)
	text := leafd(t, "version").OK(t)
	for _, field := range []string{b.Version, b.Commit, b.Date, b.Go, b.Platform} {
		require.NotEmpty(t, field)
		require.Contains(t, text, field)
	}
}

func TestMakeBuild(t *testing.T) {
	t.Parallel()
	recorded := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.9.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-21T10:00:00Z"}},
	}
	for _, tc := range []struct {
		name    string
		stamped Build
		info    *debug.BuildInfo
		want    Build
	}{
		{"stamped", Build{Version: "1", Commit: "c", Date: "d"}, recorded, Build{Version: "1", Commit: "c", Date: "d"}},
		{"recorded", Build{}, recorded, Build{Version: "v0.9.0", Commit: "abc", Date: "2026-11-21T10:00:00Z"}},
		{"neither", Build{}, &debug.BuildInfo{}, Build{Version: "unknown", Commit: "unknown", Date: "unknown"}},
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
		require.Contains(t, leafd(t, "completion", shell).OK(t), "leafd", shell)
	}
	require.Contains(t, invocation{args: []string{"__complete", "serve", "--adv"}}.run(t).Stdout, "--advertise")
	for line, want := range map[string]string{ // the words, and cobra's number: 0 files, 4 nothing else, 16 directories
		"serve --log-level=":        "trace debug info warn error :4",
		"serve --segment-guard ":    "prefer require :4",
		"serve --modes ":            "snowflake segment snowflake,segment :4",
		"serve --release-on-stop=":  "true false :4",
		"serve --data-dir ":         ":16",
		"serve --tls-cert ":         ":0",
		"serve --config ":           ":0",
		"serve --node ":             ":4",
		"worker list -o ":           "text json :4",
		"id next --token-file ":     ":0",
		"worker list --timeout ":    ":4",
		"cluster init --yes=":       "true false :4",
		"worker list --zk-tls-ca=/": ":0",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		require.Equal(t, want, strings.Join(strings.Fields(invocation{args: args}.run(t).Stdout), " "), line)
	}
}

// fullDisk fails every write.
type fullDisk struct{}

var errFull = errors.New("no space left on device")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	url, _ := served(t, 200, `{"ids":["1"]}`)
	for _, args := range []string{"version", "version -o json", "config --sample", "id decode 1", "id next --url " + url} {
		var stderr strings.Builder
		code := Run(t.Context(), Process{Args: strings.Fields(args), Stdout: fullDisk{}, Stderr: &stderr, Clock: clocktest.New(clitest.Now)})
		require.Equal(t, ExitFailure, code, args)
		require.Contains(t, stderr.String(), "standard output: no space left", args)
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string]string{"A": "b=c", "E": ""}, Environ([]string{"A=b=c", "E=", "nonsense"}))
}
