package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestNotifier(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(n *Notifier)
		want []string
	}{
		"ready once":                    {func(n *Notifier) { n.Ready(); n.Ready() }, []string{"READY=1"}},
		"no reload before ready":        {func(n *Notifier) { n.Reloading()(); n.Ready() }, []string{"READY=1"}},
		"ready during the first reload": {func(n *Notifier) { done := n.Reloading(); n.Ready(); done() }, []string{"READY=1"}},
		"ready after a reload":          {func(n *Notifier) { n.Ready(); n.Reloading()() }, []string{"READY=1", "RELOADING=1\nMONOTONIC_USEC=", "READY=1"}},
		"not ready after a stop": {
			func(n *Notifier) {
				n.Ready()
				done := n.Reloading()
				n.Stopping(time.Second)
				done()
				n.Ready()
				n.Reloading()()
			},
			[]string{"READY=1", "RELOADING=1\nMONOTONIC_USEC=", "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000"},
		},
		"never ready":                 {func(n *Notifier) { n.Stopping(0); n.Ready(); n.Stopping(0) }, []string{"STOPPING=1\nEXTEND_TIMEOUT_USEC=0"}},
		"status on change":            {func(n *Notifier) { n.Status("a"); n.Status("a"); n.Status("b") }, []string{"STATUS=a", "STATUS=b"}},
		"status is one line":          {func(n *Notifier) { n.Status("a\nREADY=1") }, []string{"STATUS=a READY=1"}},
		"a long start":                {func(n *Notifier) { n.Starting(2 * time.Minute) }, []string{"EXTEND_TIMEOUT_USEC=120000000"}},
		"nobody to tell stops nobody": {func(n *Notifier) { n.send = nil; n.Ready(); n.Watchdog(); n.Status("a"); n.Reloading()() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			n := &Notifier{log: zerolog.Nop(), send: func(state string) error {
				if at := strings.Index(state, "MONOTONIC_USEC="); at >= 0 {
					require.Regexp(t, `MONOTONIC_USEC=[1-9][0-9]+$`, state)
					state = state[:at] + "MONOTONIC_USEC="
				}
				told = append(told, state)
				return nil
			}}
			c.do(n)
			require.Equal(t, c.want, told)
		})
	}
}

// A service manager that takes nothing is a line of the log, once.
func TestNotifierWithoutAnEar(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	n := &Notifier{log: zerolog.New(&log), send: func(string) error { return errors.New("deaf") }}
	n.Ready()
	n.Watchdog()
	n.Status("a")
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	require.Contains(t, log.String(), "deaf")
}

// A service manager that reads nothing holds no caller up for longer than the bound.
func TestSendToAFullSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer func() { require.NoError(t, ln.Close()) }()
	for err == nil { // until its queue is full
		err = sendTo(path, "STATUS=a")
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Error(t, sendTo(filepath.Join(t.TempDir(), "none"), "READY=1"))
}
