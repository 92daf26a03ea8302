package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
)

// socketUnit are sockets as systemd holds them for a service, whichever process of it
// runs.
type socketUnit struct {
	names []string
	files []*os.File
}

// add opens a socket as leafd.socket has it.
func (u *socketUnit) add(t *testing.T, name, network, address string) {
	t.Helper()
	var conn interface{ File() (*os.File, error) }
	if strings.HasPrefix(network, "udp") {
		packets, err := net.ListenPacket(network, address)
		require.NoError(t, err)
		defer packets.Close() //nolint:errcheck // File has a descriptor of its own
		conn = packets.(*net.UDPConn)
	} else {
		ln, err := net.Listen(network, address)
		require.NoError(t, err)
		defer ln.Close()
		conn = ln.(interface{ File() (*os.File, error) })
	}
	f, err := conn.File()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	if network == "tcp" { // DeferAcceptSec=5s
		require.NoError(t, unix.SetsockoptInt(int(f.Fd()), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 5))
	}
	u.names, u.files = append(u.names, name), append(u.files, f)
}

// pass makes a command's process inherit the sockets. It has to know its own process
// id, which a shell knows before it becomes leafd.
func (u *socketUnit) pass(cmd *exec.Cmd) {
	cmd.Args = append([]string{"/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Env = append(cmd.Env, "LISTEN_FDS="+strconv.Itoa(len(u.files)), "LISTEN_FDNAMES="+strings.Join(u.names, ":"))
	cmd.ExtraFiles = u.files
}

// A daemon that is restarted again and again on a socket of systemd's, under clients
// each of which makes a connection for each request: none is refused, none is told to
// come again, none waits in vain. It is known by the socket's address.
func TestRestartRefusesNobody(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	var unit socketUnit
	addr := freeAddress(t)
	unit.add(t, "public", "tcp", addr)
	m.prepare = unit.pass
	onSocket := func() *child {
		l := m.start(tune("SegmentWait", "30s")) // with another --listen
		l.addr, l.url = addr, "http://"+addr
		return l
	}
	l := onSocket()
	l.awaitStatus("/readyz", http.StatusOK)
	require.Equal(t, addr, l.info().Node)
	l.awaitLog(`"level":"warn"`, "systemd's socket listens on "+addr, "that address ignored")

	ld := newFreshLoad(l, "/api/snowflake/get/order", "/api/segment/get/leaf-segment-test")
	for range 3 {
		before := ld.count()
		require.Eventually(t, func() bool { return ld.count() > before+50 }, eventually, time.Millisecond)
		require.Equal(t, cli.ExitOK, l.stop())
		before = ld.count()
		l = onSocket()
		require.Eventually(t, func() bool { return ld.count() > before }, eventually, time.Millisecond)
	}
	got := ld.stop()
	require.Empty(t, ld.refused, "nobody is told to come again")
	require.Zero(t, ld.failed, "nobody is refused")
	require.Empty(t, ld.broken)
	snowflakes := slices.DeleteFunc(got, func(id int64) bool { return id < 1<<40 })
	require.NotEmpty(t, snowflakes)
	requireDistinct(t, snowflakes)
	require.Equal(t, cli.ExitOK, l.stop())
}

// newFreshLoad is newLoad with a connection for each request.
func newFreshLoad(l *child, paths ...string) *load {
	return (&load{fresh: true}).start(l, 4, paths)
}

// Sockets that leafd would hold and not serve are refused, and named. Variables of a service manager that say what can't be end the
// start with what is wrong; those that are no message to this process are ignored.
func TestWhatSystemdCantMean(t *testing.T) {
	t.Parallel()
	tcp := func(names ...string) func(t *testing.T, u *socketUnit) {
		return func(t *testing.T, u *socketUnit) {
			for _, name := range names {
				u.add(t, name, "tcp", "127.0.0.1:0")
			}
		}
	}
	const mine = `LISTEN_PID=$$ `
	for name, c := range map[string]struct {
		open func(t *testing.T, u *socketUnit)
		set  string // or before the command, for a shell
		says string // "" starts
	}{
		"two of one name":              {tcp("public", "public"), "", `"public" on 127.0.0.1:`},
		"a name of nothing":            {tcp("public", "metrics"), "", `"metrics" on 127.0.0.1:`},
		"datagrams":                    {func(t *testing.T, u *socketUnit) { u.add(t, "public", "udp", "127.0.0.1:0") }, "", `"public" is no listening stream socket`},
		"a unix socket":                {func(t *testing.T, u *socketUnit) { u.add(t, "public", "unix", t.TempDir()+"/s") }, "", "want a TCP one"},
		"another process":              {nil, `LISTEN_PID=1 LISTEN_FDS=1 `, ""},
		"no number":                    {nil, mine + `LISTEN_FDS=x `, ""},
		"closed descriptors":           {nil, mine + `LISTEN_FDS=1 LISTEN_FDNAMES=public `, "no listening stream socket"},
		"as many as there are numbers": {nil, mine + `LISTEN_FDS=9223372036854775807 `, "LISTEN_FDS is 9223372036854775807"},
		"a watchdog of no time":        {nil, `WATCHDOG_USEC=soon `, "watchdog"},
		"nobody to notify":             {nil, `NOTIFY_SOCKET=/nowhere/at/all `, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			var unit socketUnit
			m.prepare = func(cmd *exec.Cmd) {
				cmd.Args = append([]string{"/bin/sh", "-c", c.set + `exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/bin/sh"
			}
			if c.open != nil {
				c.open(t, &unit)
				m.prepare = unit.pass
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

// The tool that systemd has for trying socket activation: it starts leafd at the first
// connection, which is answered; a single socket needs no name.
func TestSystemdSocketActivate(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	addr := freeAddress(t)
	m.prepare = func(cmd *exec.Cmd) {
		args := []string{"systemd-socket-activate", "--listen=" + addr}
		for _, name := range m.env() {
			args = append(args, "--setenv="+name)
		}
		cmd.Args = slices.Concat(args, []string{cmd.Path}, cmd.Args[1:])
		var err error
		cmd.Path, err = exec.LookPath(args[0])
		require.NoError(t, err)
	}
	l := m.start()
	l.addr, l.url = addr, "http://"+addr
	l.awaitStatus("/readyz", http.StatusOK)
	require.Equal(t, addr, l.info().Node)
	require.Equal(t, cli.ExitOK, l.stop())
}
