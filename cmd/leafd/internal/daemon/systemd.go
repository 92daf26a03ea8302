package daemon

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
)

// notifyTimeout bounds each message, for a service manager that hangs.
const notifyTimeout = time.Second

// Notifier reports the daemon's state to the service manager, see sd_notify(3). Its
// methods may be called at any time, from any goroutine; without a service manager
// they do nothing. It keeps:
//
//  1. READY=1 is sent once the daemon is ready, and after each RELOADING=1; never
//     before, even if a reload ends by then, and never after STOPPING=1.
//  2. A message that can't be delivered changes nothing for the daemon.
type Notifier struct {
	// send delivers one message; nil: there is no service manager.
	send func(state string) error // immutable
	log  zerolog.Logger           // immutable

	mu       sync.Mutex
	ready    bool   // mu protects
	stopping bool   // mu protects
	status   string // mu protects; told last
	failed   bool   // mu protects; the last message was not delivered
}

// SystemNotifier takes over what systemd put into the environment of the process,
// and removes it there: no program that leafd runs may speak for it. It also returns
// how long systemd waits for a sign of life, 0 where it has no watchdog.
func SystemNotifier(log zerolog.Logger) (*Notifier, time.Duration, error) {
	const variable = "NOTIFY_SOCKET"
	n := &Notifier{log: log}
	if socket := os.Getenv(variable); socket != "" {
		n.send = func(state string) error { return sendTo(socket, state) }
	}
	if err := os.Unsetenv(variable); err != nil {
		return nil, 0, fmt.Errorf("systemd: taking %s from the environment: %w", variable, err)
	}
	every, err := sd.SdWatchdogEnabled(true)
	if err != nil {
		return nil, 0, fmt.Errorf("systemd: the watchdog's time: %w", err)
	}
	return n, every, nil
}

// sendTo is sd.SdNotify with a time-out.
func sendTo(socket, state string) error {
	conn, err := net.DialTimeout("unixgram", socket, notifyTimeout) //nolint:noctx,gosec // bounded; where to, systemd says
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // a datagram is sent or not by now
	if err := conn.SetWriteDeadline(time.Now().Add(notifyTimeout)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(state))
	return err
}

func (n *Notifier) tellLocked(lines ...string) {
	if n.send == nil {
		return
	}
	err := n.send(strings.Join(lines, "\n"))
	if err != nil && !n.failed {
		n.log.Warn().Err(err).Strs("message", lines).Msg("systemd: a message was not delivered")
	}
	n.failed = err != nil
}

// Starting asks for up to within from now, should the start take so long.
func (n *Notifier) Starting(within time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellLocked(extend(within))
}

// Ready tells that the start is over. Only the first call counts.
func (n *Notifier) Ready() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready || n.stopping {
		return
	}
	n.ready = true
	n.tellLocked(sd.SdNotifyReady)
}

// Status tells the daemon's state in one line, where it has changed.
func (n *Notifier) Status(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	line = strings.ReplaceAll(line, "\n", " ")
	if line == n.status {
		return
	}
	n.status = line
	n.tellLocked("STATUS=" + line)
}

// Reloading tells that the settings are read again, and done that this has ended,
// with or without success.
func (n *Notifier) Reloading() (done func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ready || n.stopping {
		return func() {}
	}
	n.tellLocked(sd.SdNotifyReloading, strings.TrimSuffix(sd.SdNotifyMonotonicUsec(), "\n"))
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.stopping {
			n.tellLocked(sd.SdNotifyReady)
		}
	}
}

// Watchdog tells that the daemon works.
func (n *Notifier) Watchdog() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellLocked(sd.SdNotifyWatchdog)
}

// Stopping tells that the stop has begun, and asks for up to within from now for it.
func (n *Notifier) Stopping(within time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopping {
		return
	}
	n.stopping = true
	n.tellLocked(sd.SdNotifyStopping, extend(within))
}

func extend(within time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", within.Microseconds())
}
