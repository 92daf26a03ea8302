package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/views"
)

// listeners checks whether each address that the daemon listens on can be had, and asks the daemon
// that runs on this data directory what is wrong with it.
func (p *Patient) listeners(ctx context.Context, r *report) {
	pid, _ := cache.LockPID(p.Cfg.DataDir) // the check of the lock tells why it is not known
	of := p.Cfg.Listen
	for _, l := range []struct{ check, address string }{
		{"listen", of.Address}, {"admin-listen", of.Admin}, {"listen-redis", of.Redis}, {"listen", of.Unix},
	} {
		if l.address == "" {
			continue
		}
		switch err := occupied(ctx, l.address); {
		case err == nil:
			r.OK(l.check, "%s can be had", l.address)
		case pid != 0 && errors.Is(err, syscall.EADDRINUSE):
			r.OK(l.check, "%s is held, and a daemon runs on this data directory, process %d", l.address, pid)
			if l.address == of.Address {
				p.conditions(ctx, r)
			}
		case errors.Is(err, syscall.EACCES):
			r.Fail(l.check, fmt.Errorf("%s: %w", l.address, err), "take a port of 1024 or more, or give the unit AmbientCapabilities=CAP_NET_BIND_SERVICE")
		default:
			r.Fail(l.check, fmt.Errorf("%s: %w", l.address, err), "correct --"+l.check+", or stop what has it: ss -ltnp tells, and it may be a socket of systemd")
		}
	}
}

// occupied returns why an address can't be listened on. A unix socket that a dead process has left can.
func occupied(ctx context.Context, address string) error {
	path, unix := strings.CutPrefix(address, settings.UnixScheme)
	if !unix {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, "tcp", address)
		if err == nil {
			err = ln.Close()
		}
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err = os.Stat(filepath.Dir(path))
		return err
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return errors.New("it is there, and is no socket")
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil //nolint:nilerr // no process serves it
	}
	return cmp.Or(conn.Close(), fmt.Errorf("another process serves it: %w", syscall.EADDRINUSE))
}

// readyBytes is more than a daemon's readiness has.
const readyBytes = 1 << 20

// Running asks the daemon that may run here with the settings of before, where those of now are wrong: of the checks
// it alone needs but some of them.
func (p *Patient) Running(ctx context.Context) []Result {
	return run(ctx, []check{{true, "conditions", p.Timeout, func(ctx context.Context, r *report) {
		if err := occupied(ctx, p.Cfg.Listen.Address); !errors.Is(err, syscall.EADDRINUSE) {
			r.add(Result{Check: "conditions", Status: Skip, Found: fmt.Sprintf("no daemon was asked: none listens on %q. The other checks need all settings", p.Cfg.Listen.Address)})
			return
		}
		p.conditions(ctx, r)
	}}})
}

// conditions asks the daemon that runs what is wrong with it.
func (p *Patient) conditions(ctx context.Context, r *report) {
	const check = "conditions"
	client, err := p.cluster(p.Timeout).Prober()
	if err != nil {
		return // the check of the certificate tells
	}
	_, address, _ := strings.Cut(p.Cfg.URL(), "://")
	answer := client.Fetch(ctx, []string{address}, "/readyz", readyBytes)[0]
	var ready views.Readiness
	if inspect.Silent(answer.Err) {
		r.Fail(check, fmt.Errorf("the daemon that runs here gives no answer: %w", answer.Err), "it is frozen, or has no CPU: see its log and the state of its process (T is stopped), and start it again if it stays so")
		return
	}
	if err := cmp.Or(answer.Err, json.Unmarshal(answer.Body, &ready)); err != nil {
		r.Warn(check, fmt.Sprintf("the daemon doesn't say what is wrong with it: %v", err), "see its log, and whether it is that one which has the port")
		return
	}
	for _, c := range ready.Conditions {
		found := strings.TrimPrefix(c.Subject+": "+c.Message, ": ")
		if c.Cause != "" {
			found += ": " + c.Cause
		}
		if found += " (" + c.Code + ")"; c.NotReady {
			r.Fail(check, errors.New(found), c.Action)
		} else {
			r.Warn(check, found, c.Action)
		}
	}
	if len(ready.Conditions) == 0 {
		r.OK(check, "the daemon that runs here is ready, and tells of nothing that is wrong")
	}
}

// advertise checks whether the advertised address is this machine's.
func (p *Patient) advertise(ctx context.Context, r *report) {
	const check = "advertise"
	addr, _ := netip.ParseAddrPort(p.Cfg.Listen.Advertise)            // the settings have checked it
	err := occupied(ctx, netip.AddrPortFrom(addr.Addr(), 0).String()) // at any port
	derived := p.Values.Find(check).Parsed == ""                      // the settings warn of a derived loopback
	switch alone := len(p.Cfg.ZooKeeper.Servers) == 0; {
	case addr.Addr().IsLoopback() && !alone && !derived:
		r.Warn(check, fmt.Sprintf("%s is loopback: daemons of other machines reach themselves there", addr), "set --advertise to an address that the others reach")
	case err != nil:
		r.Warn(check, fmt.Sprintf("%s is no address of this machine", addr), "see that the others reach this daemon there, through a forwarded port, say; else correct --advertise")
	default:
		r.OK(check, "%s is an address of this machine", addr)
	}
}
