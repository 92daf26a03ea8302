// Package clientpages runs the programs of docs/clients, where their languages are installed.
package clientpages

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(proctest.RemoveLeafdAfter(m)) }

// Each program takes IDs through a kill -9 of each of two daemons in turn: no call fails, and no ID
// comes twice.
func TestPrograms(t *testing.T) {
	binary := proctest.Leafd(t)
	for _, p := range []struct {
		language, heading, block, file string // of the first block below the heading
		redis                          bool
		command                        []string
	}{
		{"python", "# Python", "python", "ids.py", false, []string{"python3"}},
		{"node", "# Node", "js", "ids.mjs", false, []string{"node"}},
		{"go", "## go-redis", "go", "main.go", true, []string{"go", "run"}}, // package client has tests of its own
	} {
		t.Run(p.language, func(t *testing.T) {
			if _, err := exec.LookPath(p.command[0]); err != nil {
				t.Skip(err)
			}
			page, err := os.ReadFile("../../docs/clients/" + p.language + ".md")
			require.NoError(t, err)
			_, section, found := strings.Cut(string(page), p.heading+"\n")
			require.True(t, found)
			_, program, found := strings.Cut(section, "```"+p.block+"\n")
			require.True(t, found)
			program, _, _ = strings.Cut(program, "```\n")
			path := filepath.Join(t.TempDir(), p.file)
			require.NoError(t, os.WriteFile(path, []byte(program), 0o600))

			var configs [2]proctest.Config
			var daemons [2]*proctest.Daemon
			const count = 20_000
			args := append(p.command[1:], path, fmt.Sprint(count))
			for i := range daemons {
				address, err := proctest.FreeAddress()
				require.NoError(t, err)
				redis, err := proctest.FreeAddress()
				require.NoError(t, err)
				configs[i] = proctest.Config{Address: address, Command: []string{
					binary, "serve", "--listen", address, "--listen-redis", redis, "--data-dir", t.TempDir(), "--worker-id", fmt.Sprint(i),
				}}
				daemons[i] = start(t, configs[i])
				if p.redis {
					args = append(args, redis)
				} else {
					args = append(args, daemons[i].URL)
				}
			}
			defer func() {
				for _, d := range daemons {
					require.NoError(t, d.Stop(proctest.Patience))
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, p.command[0], args...)
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.StdoutPipe() // which holds a sixth of the IDs: the program waits for us
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			seen := make(map[string]bool)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				require.Regexp(t, `^[1-9][0-9]{17,18}$`, lines.Text())
				require.False(t, seen[lines.Text()], lines.Text())
				seen[lines.Text()] = true
				switch len(seen) {
				case count / 4:
					require.NoError(t, daemons[0].End(syscall.SIGKILL))
				case count / 2:
					daemons[0] = start(t, configs[0])
					require.NoError(t, daemons[1].End(syscall.SIGKILL))
				case 3 * count / 4:
					daemons[1] = start(t, configs[1])
				}
			}
			require.NoError(t, cmd.Wait(), "%s", &said)
			require.Len(t, seen, count)
		})
	}
}

// With --layout 41+7+5, and no other setting, IDs are exact as numbers of JavaScript.
func TestLayoutForJavaScript(t *testing.T) {
	address, err := proctest.FreeAddress()
	require.NoError(t, err)
	d := start(t, proctest.Config{Address: address, Command: []string{
		proctest.Leafd(t), "serve", "--layout", "41+7+5", "--listen", address, "--data-dir", t.TempDir(),
	}})
	defer func() { require.NoError(t, d.Stop(proctest.Patience)) }()
	resp, err := http.Get(d.URL + "/api/snowflake/get/order?n=1000")
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	ids := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); ids++ {
		id, err := strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
		require.Less(t, id, int64(1)<<53)
	}
	require.Equal(t, 1000, ids)
	http.DefaultClient.CloseIdleConnections()
}

func start(t *testing.T, cfg proctest.Config) *proctest.Daemon {
	t.Helper()
	d, err := proctest.StartDaemon(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
	defer cancel()
	require.NoError(t, d.AwaitReady(ctx))
	return d
}
