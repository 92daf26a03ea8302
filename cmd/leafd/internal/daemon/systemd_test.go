package daemon

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func TestNotifier(t *testing.T) {
	t.Parallel()
	begin := func(n *Notifier) { n.tell(sd.SdNotifyReady) }
	stop := func(n *Notifier) { n.stop(time.Second) }
	const stops = "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000000"
	for name, c := range map[string]struct {
		do   func(n *Notifier)
		want []string
	}{
		"ready":                   {begin, []string{"READY=1"}},
		"not ready after a stop":  {func(n *Notifier) { begin(n); stop(n); begin(n) }, []string{"READY=1", stops}},
		"never ready":             {func(n *Notifier) { stop(n); begin(n) }, []string{stops}},
		"a status after the stop": {func(n *Notifier) { stop(n); n.tellStatus("a") }, []string{stops, "STATUS=a"}},
		"status on change":        {func(n *Notifier) { n.tellStatus("a"); n.tellStatus("a"); n.tellStatus("b") }, []string{"STATUS=a", "STATUS=b"}},
		"status is one line":      {func(n *Notifier) { n.tellStatus("a\nREADY=1") }, []string{"STATUS=a; READY=1"}},
		"a long start":            {func(n *Notifier) { n.tell(extend(2 * time.Minute)); begin(n) }, []string{"EXTEND_TIMEOUT_USEC=120000000", "READY=1"}},
		"no service manager":      {func(n *Notifier) { n.send = nil; begin(n); n.tellStatus("a") }, nil},
		"a manager that is deaf":  {func(n *Notifier) { n.send = func(string) error { return os.ErrDeadlineExceeded }; begin(n); stop(n) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			n := &Notifier{log: zerolog.Nop(), send: func(state string) error {
				told = append(told, state)
				return nil
			}}
			c.do(n)
			require.Equal(t, c.want, told)
		})
	}
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
