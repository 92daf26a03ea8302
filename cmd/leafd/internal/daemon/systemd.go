package daemon

import (
	"context"
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
//  1. READY=1 is sent once the daemon is ready, and never after STOPPING=1.
//  2. A message that can't be delivered changes nothing for the daemon.
type Notifier struct {
	// send delivers one message; nil: there is no service manager.
	send func(state string) error // immutable
	log  zerolog.Logger           // immutable
	// watchdog is how long systemd waits for a sign of life; 0: it doesn't.
	watchdog time.Duration // immutable

	mu       sync.Mutex
	stopping bool   // mu protects
	status   string // mu protects; told last
	stuck    bool   // mu protects; the last round of watch has found that
}

// SystemNotifier returns a Notifier that reports where the environment says, as systemd sets it. It
// returns an error for an environment that can't be used.
func SystemNotifier(log zerolog.Logger) (n *Notifier, err error) {
	n = &Notifier{log: log}
	if socket := os.Getenv("NOTIFY_SOCKET"); socket != "" {
		n.send = func(state string) error { return sendTo(socket, state) }
	}
	if n.watchdog, err = sd.SdWatchdogEnabled(false); err != nil {
		return nil, fmt.Errorf("systemd: the watchdog's time: %w", err)
	}
	return n, nil
}

// sendTo is sd.SdNotify with a time-out.
func sendTo(socket, state string) error {
	conn, err := net.DialTimeout("unixgram", socket, notifyTimeout) //nolint:noctx,gosec // bounded; where to, systemd says
	if err != nil {
		return err
	}
	defer conn.Close()                                       //nolint:errcheck // a datagram is sent or not by now
	_ = conn.SetWriteDeadline(time.Now().Add(notifyTimeout)) // it fails for a closed one alone
	_, err = conn.Write([]byte(state))
	return err
}

func (n *Notifier) tellLocked(lines ...string) {
	if n.send != nil {
		_ = n.send(strings.Join(lines, "\n"))
	}
}

// tell tells what is true until the daemon stops, and is not told any more then.
func (n *Notifier) tell(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stopping {
		n.tellLocked(line)
	}
}

// stop tells that the daemon stops, within a time.
func (n *Notifier) stop(within time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopping = true
	n.tellLocked(sd.SdNotifyStopping, extend(within))
}

// tellStatus tells the daemon's state in one line, unless a part is stuck, which watch tells.
func (n *Notifier) tellStatus(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stuck {
		n.statusLocked(line)
	}
}

func (n *Notifier) statusLocked(line string) {
	if line = strings.ReplaceAll(line, "\n", "; "); line != n.status {
		n.status = line
		n.tellLocked("STATUS=" + line)
	}
}

// watch feeds systemd's watchdog, which else ends the process with a dump of its goroutines
// and starts it again. stuck returns an error when a part of the daemon is stuck. It keeps:
//
//  1. WATCHDOG=1 is told only after stuck has returned nil, in that very round.
//     No timer feeds, and a stuck that doesn't return holds up its round.
//  2. One failed round ends nothing: there are three in systemd's time.
//  3. While the daemon stops, every round feeds: its parts end one after the other,
//     and systemd's time for a stop bounds that.
func (n *Notifier) watch(ctx context.Context, every time.Duration, stuck func(context.Context) error) {
	bounded, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	err := stuck(bounded)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stuck = err != nil && !n.stopping; !n.stuck {
		n.tellLocked(sd.SdNotifyWatchdog)
		return
	}
	n.statusLocked("STUCK: " + err.Error())
	// The log may be the part that is stuck.
	go n.log.Error().Err(err).Msg("watchdog: a part of leafd is stuck: unless that ends, systemd restarts it")
}

// extend asks for up to within from now, for a start or a stop.
func extend(within time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", within.Microseconds())
}
