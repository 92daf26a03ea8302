package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/leafd/leafd/internal/proctest"
)

const (
	readyWithin = time.Minute
	portTries   = 5
)

// errPort tells that the daemon could not have its port.
var errPort = errors.New("the daemon's port was taken by another program")

// daemon is a leafd.
type daemon struct {
	cmd     *exec.Cmd
	process *proctest.Process
	url     string
	log     string // path
	http    *http.Client
}

// startDaemon starts a daemon with its data in folder, and waits until it is ready.
func startDaemon(ctx context.Context, program, folder, dsn string) (*daemon, error) {
	for try := 1; ; try++ {
		d, err := startOnce(ctx, program, folder, dsn)
		if !errors.Is(err, errPort) || try == portTries {
			return d, err
		}
	}
}

func startOnce(ctx context.Context, program, folder, dsn string) (_ *daemon, err error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "leafd.log")
	log, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }() // the daemon has its own
	d := &daemon{
		url: "http://" + address, log: path,
		http: &http.Client{Timeout: timeout, Transport: &http.Transport{MaxConnsPerHost: 1}},
		cmd:  exec.Command(program, "serve", "--listen", address, "--data-dir", filepath.Join(folder, "data"), "--log-format", "json"), //nolint:noctx // it is stopped by a signal, and waited for
	}
	// Nothing of ours: LEAFD_ variables of the user's would be settings.
	d.cmd.Env = []string{"LEAFD_MYSQL=" + dsn}
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG"} {
		if value, set := os.LookupEnv(name); set {
			d.cmd.Env = append(d.cmd.Env, name+"="+value)
		}
	}
	d.cmd.Stdout, d.cmd.Stderr = log, log
	if d.process, err = proctest.Start(d.cmd); err != nil {
		return nil, err
	}
	if err := d.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, d.process.End(syscall.SIGKILL))
	}
	return d, nil
}

func (d *daemon) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		body, err := d.get(ctx, "/readyz")
		if err == nil {
			return body.Close()
		}
		select {
		case <-d.process.Done():
			if strings.Contains(proctest.Tail(d.log), "address already in use") {
				return errPort
			}
			return d.death()
		case <-ctx.Done():
			return fmt.Errorf("the daemon is not ready: %w; its log ends with\n%s", err, proctest.Tail(d.log))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// body is the body of an answer.
type body struct {
	*bufio.Reader
	close func() error
}

// Close gives the connection back.
func (b body) Close() error { return b.close() }

// get returns the body of a 200.
func (d *daemon) get(ctx context.Context, path string) (body, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return body{}, err
	}
	answer, err := d.http.Do(request)
	if err != nil {
		return body{}, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close() // it is of no interest
		return body{}, fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return body{bufio.NewReader(answer.Body), answer.Body.Close}, nil
}

// death tells that the daemon has ended by itself.
func (d *daemon) death() error {
	return fmt.Errorf("the daemon ended by itself (%s); its log ends with\n%s", d.cmd.ProcessState, proctest.Tail(d.log))
}

// stop ends the daemon in order. An end that isn't clean is an error.
func (d *daemon) stop() error {
	d.http.CloseIdleConnections()
	select {
	case <-d.process.Done():
		return d.death()
	default:
	}
	if err := d.process.End(syscall.SIGTERM); err != nil {
		return err
	}
	if !d.cmd.ProcessState.Success() {
		return fmt.Errorf("the daemon's stop was not clean (%s); its log ends with\n%s", d.cmd.ProcessState, proctest.Tail(d.log))
	}
	return nil
}
