package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
)

const password = "hunter2"

func TestPasswordIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const dsn = "leaf:" + password + "@tcp(127.0.0.1:3306)/leaf?timeout=1s"
	require.Equal(t, dsn, captured(t, invocation{args: []string{"--mysql", dsn}}).Segment.MySQL)
	file := clitest.WriteFile(t, "leafd.yaml", "mysql: "+dsn+"\n")
	for _, output := range []string{outputText, outputJSON} {
		for name, c := range map[string]invocation{
			"flag": {args: []string{"--mysql", dsn}},
			"env":  {env: map[string]string{"LEAFD_MYSQL": dsn}},
			"file": {args: []string{"--config", file}},
		} {
			c.args = append([]string{"config", "-o", output}, c.args...)
			printed := c.run(t).OK(t)
			require.NotContains(t, printed, password, name)
			require.Contains(t, printed, "leaf:xxxxx@tcp(127.0.0.1:3306)/leaf", name)
		}
	}
}

func TestPasswordIsInNoError(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		password,
		"leaf:" + password + "@tcp(127.0.0.1:3306)",
		"leaf:" + password + "@tcp(127.0.0.1:3306",
		"leaf:" + password + "@tcp(127.0.0.1:3306)/",
		"leaf:" + password + "@tcp(127.0.0.1:3306)/leaf?timeout=soon",
		"leaf:x/?timeout=" + password + "@tcp(127.0.0.1:3306)/leaf?parseTime=" + password,
		"mysql://leaf:" + password + "@127.0.0.1/leaf",
		"leaf:" + password + "@udp(127.0.0.1:3306)/leaf",
	} {
		for name, c := range map[string]invocation{
			"flag": {args: []string{"--mysql", dsn}},
			"env":  {env: map[string]string{"LEAFD_MYSQL": dsn}},
			"file": {args: []string{"--config", clitest.WriteFile(t, "leafd.yaml", `mysql: "`+dsn+`"`)}},
			"list": {args: []string{"--config", clitest.WriteFile(t, "leafd.yaml", `mysql: ["`+dsn+`"]`)}},
		} {
			for _, command := range [][]string{{"serve"}, {"config"}, {"segment", "list"}} {
				c := c
				c.args = append(command, c.args...)
				out := c.run(t)
				out.Failed(t, ExitUsage, "(hidden)")
				require.NotContains(t, out.Stderr, password, "%s %s", name, dsn)
			}
		}
	}
}

func TestPasswordIsNotLogged(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	a := newApp(Process{
		Args:   []string{"serve", "--log-level=trace", "--mysql=leaf:" + password + "@tcp(127.0.0.1:3306)/leaf"},
		Stdout: &stderr, Stderr: &stderr, Clock: clocktest.New(clitest.Now),
	})
	a.daemon = func(_ context.Context, _ settings.Config, deps daemon.Deps) error {
		deps.Log.Info().Msg("a line")
		return nil
	}
	require.Equal(t, ExitOK, a.run(t.Context()))
	require.Contains(t, stderr.String(), "a line")
	require.NotContains(t, stderr.String(), password)
}

func TestAdminToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	path := clitest.WriteFile(t, "token", "\n "+token+" \n")
	cfg := captured(t, invocation{args: []string{"--admin-token-file", path}})
	require.Equal(t, token, cfg.HTTP.AdminToken)
	require.Empty(t, cfg.Warnings)

	printed := leafd(t, "config", "--admin-token-file", path).OK(t)
	require.Contains(t, printed, path)
	require.NotContains(t, printed, token)

	require.NoError(t, os.Chmod(path, 0o644))
	cfg = captured(t, invocation{args: []string{"--admin-token-file", path}})
	require.Equal(t, token, cfg.HTTP.AdminToken)
	require.Len(t, cfg.Warnings, 1)
	require.Contains(t, cfg.Warnings[0], path+" is readable to every user of this machine (mode 0644)")
	require.NotContains(t, cfg.Warnings[0], token)
}

func TestBadAdminToken(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{ // FuzzToken has more
		"": "has 0 bytes: want 16 or more", "  hunter2hunter2h  ": "has 15 bytes", "hunter2hunter2hunter2\nhunter2": "on one line", strings.Repeat("hunter2", 1000): "at most 4096",
	} {
		path := clitest.WriteFile(t, "token", content)
		out := leafd(t, "serve", "--admin-token-file", path)
		out.Failed(t, ExitUsage, "--admin-token-file is ", path, says)
		require.NotContains(t, out.Stderr, password)
	}
	missing := filepath.Join(t.TempDir(), "none")
	leafd(t, "config", "--admin-token-file", missing).Failed(t, ExitUsage, missing, "no such file")
	leafd(t, "config", "--admin-token-file", t.TempDir()).Failed(t, ExitUsage, "want a regular file, not a directory")
}
