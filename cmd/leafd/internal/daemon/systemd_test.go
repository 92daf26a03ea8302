package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestNotifier(t *testing.T) {
	t.Parallel()
	begin := func(n *Notifier) { n.enter(ready, sd.SdNotifyReady) }
	stop := func(n *Notifier) { n.enter(stopping, sd.SdNotifyStopping, extend(time.Second)) }
	const reloading, stops = "RELOADING=1\nMONOTONIC_USEC=", "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000"
	for name, c := range map[string]struct {
		do   func(n *Notifier)
		want []string
	}{
		"ready once":                    {func(n *Notifier) { begin(n); begin(n) }, []string{"READY=1"}},
		"no reload before ready":        {func(n *Notifier) { n.Reloading()(); begin(n) }, []string{"READY=1"}},
		"ready during the first reload": {func(n *Notifier) { done := n.Reloading(); begin(n); done() }, []string{"READY=1", "READY=1"}},
		"ready after a reload":          {func(n *Notifier) { begin(n); n.Reloading()() }, []string{"READY=1", reloading, "READY=1"}},
		"not ready after a stop": {
			func(n *Notifier) {
				begin(n)
				done := n.Reloading()
				stop(n)
				done()
				begin(n)
				n.Reloading()()
			},
			[]string{"READY=1", reloading, stops},
		},
		"never ready":        {func(n *Notifier) { stop(n); begin(n); stop(n) }, []string{stops}},
		"status on change":   {func(n *Notifier) { n.tellStatus("a"); n.tellStatus("a"); n.tellStatus("b") }, []string{"STATUS=a", "STATUS=b"}},
		"status is one line": {func(n *Notifier) { n.tellStatus("a\nREADY=1") }, []string{"STATUS=a; READY=1"}},
		"a long start":       {func(n *Notifier) { n.enter(starting, extend(2*time.Minute)); begin(n) }, []string{"EXTEND_TIMEOUT_USEC=120000000", "READY=1"}},
		"no service manager": {func(n *Notifier) { n.send = nil; begin(n); n.tellStatus("a"); n.Reloading()() }, nil},
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
	n.enter(ready, sd.SdNotifyReady)
	n.tellStatus("b")
	n.tellStatus("a")
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
