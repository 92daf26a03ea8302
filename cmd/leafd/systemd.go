package main

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

// notifyTimeout bounds each message: a service manager that hangs holds nobody up.
const notifyTimeout = time.Second

// notifier tells the service manager how the daemon is, as sd_notify(3) says. Its
// methods may be called at any time, by anybody; without a service manager they do
// nothing. It keeps:
//
//	N1  READY=1 is told once the daemon is ready, and after each RELOADING=1; never
//	    before, whatever is reloaded by then, and never after STOPPING=1.
//	N2  A message that can't be delivered changes nothing for the daemon.
type notifier struct {
	// send delivers one message; nil: there is no service manager.
	send func(state string) error // immutable
	log  zerolog.Logger           // immutable

	mu       sync.Mutex
	ready    bool   // mu protects
	stopping bool   // mu protects
	status   string // mu protects; told last
	failed   bool   // mu protects; the last message was not delivered
}

// systemNotifier takes over what systemd put into the environment of the process,
// and removes it from there: no program that leafd runs shall speak for it. It also
// returns how often systemd wants to hear that the daemon works, 0: not at all.
func systemNotifier(log zerolog.Logger) (*notifier, time.Duration, error) {
	const variable = "NOTIFY_SOCKET"
	n := &notifier{log: log}
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

// joinSystemd takes over what systemd wants to hear; log has what becomes of it.
func (a *app) joinSystemd(log zerolog.Logger) error {
	var err error
	if a.notify, a.watchdog, err = systemNotifier(log); err != nil {
		return err
	}
	if a.reloading == nil {
		a.reloading = a.notify.Reloading
	}
	return nil
}

// sendTo is sd.SdNotify with a bound: that one waits for ever for a service
// manager that reads nothing.
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

func (n *notifier) tellLocked(lines ...string) {
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
func (n *notifier) Starting(within time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellLocked(extend(within))
}

// Ready tells that the start is over. Only the first call counts.
func (n *notifier) Ready() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ready || n.stopping { // N1
		return
	}
	n.ready = true
	n.tellLocked(sd.SdNotifyReady)
}

// Status tells how the daemon is, in one line, where that has changed.
func (n *notifier) Status(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	line = strings.ReplaceAll(line, "\n", " ")
	if line == n.status {
		return
	}
	n.status = line
	n.tellLocked("STATUS=" + line)
}

// Reloading tells that the settings are being read anew, and what it returns that
// this is over, whatever came of it.
func (n *notifier) Reloading() (done func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ready || n.stopping { // N1
		return func() {}
	}
	n.tellLocked(sd.SdNotifyReloading, strings.TrimSuffix(sd.SdNotifyMonotonicUsec(), "\n"))
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !n.stopping { // N1
			n.tellLocked(sd.SdNotifyReady)
		}
	}
}

// Watchdog tells that the daemon works.
func (n *notifier) Watchdog() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tellLocked(sd.SdNotifyWatchdog)
}

// Stopping tells that the stop has begun, and asks for up to within from now for it.
func (n *notifier) Stopping(within time.Duration) {
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
