package main

import (
	"net/http"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// Variables of a service manager that say what can't be: those that are no message
// to this process are ignored, and the others end the start with what is wrong. No
// fuzz target can try these in its own process: they would close its files.
func TestMalformedSystemdVariables(t *testing.T) {
	t.Parallel()
	const mine = `LISTEN_PID=$$ `
	for name, c := range map[string]struct {
		set  string // before the command, for a shell
		says string // "" starts
	}{
		"another process":              {`LISTEN_PID=1 LISTEN_FDS=1 `, ""},
		"no number of a process":       {`LISTEN_PID=x LISTEN_FDS=1 LISTEN_FDNAMES=::: `, ""},
		"no number":                    {mine + `LISTEN_FDS=x `, ""},
		"negative":                     {mine + `LISTEN_FDS=-5 `, ""},
		"beyond 64 bits":               {mine + `LISTEN_FDS=99999999999999999999 `, ""},
		"closed descriptors":           {mine + `LISTEN_FDS=1 LISTEN_FDNAMES=public `, "no listening stream socket"},
		"as many as there are numbers": {mine + `LISTEN_FDS=9223372036854775807 `, "LISTEN_FDS is 9223372036854775807"},
		"too many":                     {mine + `LISTEN_FDS=1025 `, "LISTEN_FDS is 1025"},
		"a watchdog of no time":        {`WATCHDOG_USEC=soon `, "watchdog"},
		"a watchdog of another":        {`WATCHDOG_USEC=soon WATCHDOG_PID=1 `, "watchdog"},
		"nobody to notify":             {`NOTIFY_SOCKET=/nowhere/at/all `, ""},
		"a name of NULs":               {`NOTIFY_SOCKET=@ `, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.prepare = func(cmd *exec.Cmd) {
				cmd.Args = append([]string{"/bin/sh", "-c", c.set + `exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/bin/sh"
				cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			}
			l := m.start()
			if c.says != "" {
				require.NotEqual(t, cli.ExitOK, l.ExitCode())
				require.Contains(t, l.Log(), c.says)
				require.NotContains(t, l.Log(), "goroutine ")
				return
			}
			l.awaitStatus("/readyz", http.StatusOK)
			require.Equal(t, cli.ExitOK, l.stop())
		})
	}
}
