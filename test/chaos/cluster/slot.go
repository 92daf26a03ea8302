package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/test/chaos/history"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/proctest"
)

// host is a machine: a clock of its own.
type host struct {
	number int
	clk    *clocktest.Skewed
	path   string // of the file that steps it

	mu     sync.Mutex // Protects the following. A daemon starts while its clock drifts.
	offset time.Duration
	stood  time.Duration // how long all clocks of the process stood
}

// slot is a daemon: a name, an address, a directory, a network, and one process after
// the other. While it is to be up, one that ends is started again, as a supervisor
// would.
type slot struct {
	c       *Cluster
	name    string // of the slot
	addr    string // Immutable: where it listens
	small   bool   // its directory is a file system of its own
	host    *host  // of the next process
	node    string // of the next process
	dir     string // of the next process
	zk      []string
	mysql   string
	advert  string
	flags   []string // of the next process, besides the usual ones
	network *network // what lies before it
	far     *farHost // nil: it runs on ours

	life atomic.Pointer[life]

	mu      sync.Mutex
	up      bool // mu protects: it is to run
	running bool // mu protects: a supervisor looks after it
	wg      sync.WaitGroup
}

// life is one process of a slot.
type life struct {
	*proctest.Daemon
	number int
	dir    string
}

// smallDisk is a daemon's disk, in bytes.
const smallDisk = 8 << 20

func (c *Cluster) newSlot(name string, number int, whole bool) (*slot, error) {
	s := &slot{c: c, name: name, node: name, dir: c.path(name, "data")}
	if err := os.MkdirAll(c.path(name), 0o700); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if whole && c.cfg.Small {
		if err := unix.Mount("leafd", c.path(name), "tmpfs", 0, fmt.Sprintf("size=%d", smallDisk)); err != nil {
			return nil, fmt.Errorf("cluster: a small disk for %s: %w", name, err)
		}
		s.small = true
	}
	path := c.path(name + ".clock")
	clk, err := clocktest.OpenSkewed(path)
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.host = &host{number: number, clk: clk, path: path}
	if err := s.place(whole); err != nil {
		return nil, errors.Join(err, s.release())
	}
	err = c.do(func(t testing.TB) {
		s.zk, s.mysql, s.advert = c.zk.Addrs(), c.dsn, s.addr
		s.network = newNetwork(t, c, s)
		if whole {
			s.zk, s.mysql, s.advert = s.network.zkAddrs(), s.network.dsn, s.network.peers.Addr()
		}
	})
	return s, err
}

// place gives the slot an address, and one that is whole a machine where that may be.
func (s *slot) place(whole bool) (err error) {
	ip := "127.0.0.1"
	if s.c.cfg.Networks {
		ip = home
		if whole {
			if s.far, err = newFarHost(s.host.number); err != nil {
				return err
			}
			ip = s.far.addr
		}
	}
	s.addr, err = freeAddress(ip)
	return err
}

// startUp starts the daemon and keeps it up.
func (s *slot) startUp() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = true
	if s.running {
		return nil
	}
	s.host.boot()
	l, err := s.spawn()
	if err != nil {
		return err
	}
	s.running = true
	s.wg.Go(func() { s.supervise(l) })
	return nil
}

// startOnce starts a process that is not started again.
func (s *slot) startOnce() (*life, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spawn()
}

// restartPause is what a supervisor waits before it starts what has ended.
const restartPause = 300 * time.Millisecond

func (s *slot) supervise(l *life) {
	for {
		<-l.Done()
		s.mu.Lock()
		up := s.up
		if !up {
			s.running = false
		}
		s.mu.Unlock()
		if !up {
			return
		}
		time.Sleep(restartPause)
		s.mu.Lock()
		if !s.up {
			s.running = false
			s.mu.Unlock()
			return
		}
		next, err := s.spawn()
		if err != nil {
			s.running = false
			s.mu.Unlock()
			s.c.broken(err)
			return
		}
		s.mu.Unlock()
		l = next
	}
}

// spawn starts a process. Its life is recorded before it can listen, so that no answer
// of it can be taken for one of the life before.
func (s *slot) spawn() (*life, error) {
	s.c.mu.Lock()
	s.c.processes++
	l := &life{number: s.c.processes, dir: s.dir}
	s.c.mu.Unlock()
	if err := os.MkdirAll(s.c.path("logs"), 0o700); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	out, err := os.Create(s.c.path("logs", fmt.Sprintf("%s-%d.log", s.name, l.number)))
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	command := []string{
		s.c.cfg.Leafd, "serve", "--listen", s.addr, "--advertise", s.advert, "--node", s.node,
		"--data-dir", s.dir, "--zk", strings.Join(s.zk, ","),
		"--zk-session-timeout", sessionTimeout.String(), "--layout", layout, "--lease", lease.String(),
	}
	command = append(command, s.flags...)
	if s.far != nil {
		command = s.far.inside(command...)
	}
	env := []string{"LEAFD_MYSQL=" + s.mysql, "CHAOS_CLOCK=" + s.host.path, "CHAOS_TUNING=" + tuning, "PATH=" + os.Getenv("PATH"), "HOME=" + s.c.cfg.Dir}
	s.c.record(&history.Record{Kind: history.KindLife, At: s.c.now(), Process: l.number, Daemon: s.name, Host: s.host.number, Text: s.node})
	s.life.Store(nil) // a connection made now belongs to neither process
	if l.Daemon, err = proctest.StartDaemon(proctest.Config{Command: command, Env: env, Address: s.addr, Output: out}); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: start %s: %w", s.name, err), out.Close())
	}
	s.life.Store(l)
	s.wg.Go(func() {
		<-l.Done()
		s.c.record(&history.Record{Kind: history.KindEnd, At: s.c.now(), Process: l.number, Daemon: s.name, Text: l.lastLine()})
		_ = out.Close() // its lines are in memory too
	})
	s.wg.Go(func() { s.askIdentity(l) })
	return l, nil
}

// lastLine is what a daemon printed last, cut to a length for people.
func (l *life) lastLine() string {
	text := strings.TrimSpace(l.Log())
	text = text[strings.LastIndexByte(text, '\n')+1:]
	const most = 300
	return text[:min(len(text), most)]
}

// end ends the present process with signal, and doesn't start another.
func (s *slot) end(signal syscall.Signal) error {
	s.mu.Lock()
	s.up = false
	s.mu.Unlock()
	l := s.life.Load()
	if l == nil {
		return nil
	}
	return l.End(signal)
}

// kill ends the process as a power cut would.
func (s *slot) kill() error { return s.end(syscall.SIGKILL) }

// idle waits until no supervisor is left that may start something.
func (s *slot) idle() { s.wg.Wait() }

func (s *slot) pause() error  { return s.signalled((*proctest.Process).Pause) }
func (s *slot) resume() error { return s.signalled((*proctest.Process).Resume) }

// signalled does nothing where there is no process, or none any more.
func (s *slot) signalled(do func(*proctest.Process) error) error {
	l := s.life.Load()
	if l == nil || l.Ended() {
		return nil
	}
	return do(l.Process)
}

// shutDown ends the process for good.
func (s *slot) shutDown() error {
	err := s.kill()
	s.idle()
	return errors.Join(err, s.host.clk.Close())
}

// release gives back what the machine lent.
func (s *slot) release() error {
	var failed []error
	if s.far != nil {
		failed = append(failed, s.far.end())
		s.far = nil
	}
	if s.small {
		failed = append(failed, os.NewSyscallError("umount", unix.Unmount(s.c.path(s.name), unix.MNT_DETACH)))
		s.small = false
	}
	return errors.Join(failed...)
}

// broken ends a run that can't go on.
func (c *Cluster) broken(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, err)
	c.fail(err)
}

// step moves the clock of h to be off by offset. It is told before it is done, and
// once it is done.
func (c *Cluster) step(h *host, offset time.Duration) {
	const underWay = int64(time.Hour)
	r := history.Record{Kind: history.KindClock, At: c.now(), Took: underWay, Host: h.number, From: int64(h.off()), To: int64(offset)}
	c.record(&r)
	h.set(offset)
	done := r
	done.Took = c.now() - r.At
	c.record(&done)
}

// stand has all clocks of h lose d, in which its process was stopped.
func (c *Cluster) stand(h *host, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.record(&history.Record{Kind: history.KindClock, At: c.now(), Host: h.number, From: int64(h.offset), To: int64(h.offset - d)})
	h.stood += d
	h.clk.Lag(h.stood)
	h.offset -= d
}

// boot has h, on which nothing runs, forget how long its clocks stood.
func (h *host) boot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stood = 0
	h.clk.Lag(0)
	h.clk.Set(h.offset)
}

// off is how far off its clock is.
func (h *host) off() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.offset
}

// set has its clock be off by offset.
func (h *host) set(offset time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clk.Set(offset + h.stood)
	h.offset = offset
}

// drift moves it there little by little within d, and returns when it is there.
func (c *Cluster) drift(h *host, offset, d time.Duration) error {
	const underWay, every = int64(time.Hour), 10 * time.Millisecond
	from, began := h.off(), time.Now()
	r := history.Record{Kind: history.KindClock, At: c.now(), Took: underWay, Host: h.number, From: int64(from), To: int64(offset)}
	c.record(&r)
	var err error
	for gone := time.Duration(0); gone < d && err == nil; gone = time.Since(began) {
		h.set(from + time.Duration(float64(offset-from)*float64(gone)/float64(d)))
		err = c.sleep(every)
	}
	if err == nil {
		h.set(offset)
	}
	done := r
	done.To, done.Took = int64(h.off()), c.now()-r.At
	c.record(&done)
	return err
}
