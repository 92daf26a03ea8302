package proctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrPortTaken is returned by Await when another program took the daemon's port
// between FreeAddress and the daemon's listening there.
var ErrPortTaken = errors.New("proctest: the daemon's port was taken by another program")

// Config is a daemon to start.
type Config struct {
	Command []string        // the program and its arguments
	Env     []string        // the whole environment: LEAFD_ variables of the user's would be settings
	Address string          // where it will listen, host:port
	Output  io.Writer       // gets what the daemon prints, besides Log; nil: nothing does
	Prepare func(*exec.Cmd) // changes the command before it is started; nil: nothing
}

// Daemon is a leafd, or a server that a rig compares it with, in a process of its own.
// Log and Logged may be called at any time.
type Daemon struct {
	*Process
	Address, URL string
	log          log
}

// ciVariable marks the processes of a CI run, which looks for those left behind.
const ciVariable = "CI_RUN_OF_LEAFD"

// StartDaemon starts a daemon; it may still be starting, or fail, when this returns.
func StartDaemon(cfg Config) (*Daemon, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	pipe, err := out.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, out.Close(), in.Close())
	}
	d := &Daemon{Address: cfg.Address, URL: "http://" + cfg.Address, log: log{also: cfg.Output, pipe: pipe}}
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	cmd.Env = append([]string{}, cfg.Env...)
	if run, set := os.LookupEnv(ciVariable); set {
		cmd.Env = append(cmd.Env, ciVariable+"="+run)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if cfg.Prepare != nil {
		cfg.Prepare(cmd)
	}
	all := make(chan struct{})
	go func() {
		defer close(all)
		_ = pipe.Read(d.log.take) // ends once no process has the other end
		_ = out.Close()
	}()
	d.Process, err = start(cmd, all)
	_ = in.Close() // the daemon has its own
	return d, err
}

// AwaitReady returns once GET /readyz answers 200; see Await.
func (d *Daemon) AwaitReady(ctx context.Context) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return d.Await(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			return errors.Join(err, errors.New(res.Status))
		}
		return nil
	})
}

// AwaitListening returns once the daemon takes connections; see Await.
func (d *Daemon) AwaitListening(ctx context.Context) error {
	var dialer net.Dialer
	return d.Await(ctx, time.Millisecond, func(ctx context.Context) error {
		conn, err := dialer.DialContext(ctx, "tcp", d.Address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Await calls probe at that interval until it succeeds. It returns an error when the
// daemon has ended, or ctx is done, before.
func (d *Daemon) Await(ctx context.Context, interval time.Duration, probe func(context.Context) error) error {
	var last error
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-d.Done():
			if d.Logged("address already in use") > 0 {
				return ErrPortTaken
			}
			return d.Failure()
		case <-ctx.Done():
			return fmt.Errorf("proctest: %s is not ready: %w; its log ends with\n%s", d.URL, errors.Join(context.Cause(ctx), last), tail(d.Log()))
		case <-time.After(interval):
		}
	}
}

// Log returns what the daemon has printed so far, up to the call.
func (d *Daemon) Log() string { return d.log.String() }

// Logged counts the lines printed so far that have all of parts.
func (d *Daemon) Logged(parts ...string) int {
	n := 0
	for line := range strings.Lines(d.Log()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			n++
		}
	}
	return n
}

// Failure waits for the daemon's end, and says how it ended and what it printed last.
func (d *Daemon) Failure() error {
	<-d.Done()
	err := d.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	return fmt.Errorf("%s (process %d) ended: %w; its log ends with\n%s", d.cmd.Path, d.Pid(), err, tail(d.Log()))
}

// Stop sends SIGTERM, waits, and kills the daemon after limit. An end that isn't clean
// is an error, and so is one that came before. A daemon that dies of the SIGTERM is
// clean: it was so early in its start that it had not asked for the signal.
func (d *Daemon) Stop(limit time.Duration) error {
	if d.Ended() {
		return d.Failure()
	}
	if err := d.EndWithin(syscall.SIGTERM, limit); err != nil {
		return err
	}
	if d.err == nil || d.Status().Signaled() && d.Status().Signal() == syscall.SIGTERM {
		return nil
	}
	return d.Failure()
}

// log keeps what a daemon prints, and hands it on.
type log struct {
	also io.Writer
	pipe syscall.RawConn // its end that we read

	mu   sync.Mutex
	text bytes.Buffer // mu protects
}

// take reads what is in the pipe, and tells whether that is the end.
func (l *log) take(fd uintptr) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(int(fd), buf)
		switch {
		case n > 0:
			l.text.Write(buf[:n])
			if l.also != nil {
				_, _ = l.also.Write(buf[:n]) // Log has it anyway
			}
		case !errors.Is(err, unix.EINTR):
			return !errors.Is(err, unix.EAGAIN)
		}
	}
}

// String takes first what was printed before the call: a caller that has the daemon's answer
// has the lines before it.
func (l *log) String() string {
	_ = l.pipe.Control(func(fd uintptr) { l.take(fd) }) // closed after its end was read
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
