package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

const (
	readyWithin = time.Minute
	portTries   = 5
)

// daemon is a leafd.
type daemon struct {
	*proctest.Daemon
	http *http.Client
}

// startDaemon starts a daemon with its data in dir, and waits until it is ready.
func startDaemon(ctx context.Context, program, dir, dsn string) (*daemon, error) {
	for try := 1; ; try++ {
		d, err := startOnce(ctx, program, dir, dsn)
		if !errors.Is(err, proctest.ErrPortTaken) || try == portTries {
			return d, err
		}
	}
}

func startOnce(ctx context.Context, program, dir, dsn string) (*daemon, error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	env := []string{"LEAFD_MYSQL=" + dsn}
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	p, err := proctest.StartDaemon(proctest.Config{
		Command: []string{program, "serve", "--listen", address, "--data-dir", filepath.Join(dir, "data")},
		Env:     env, Address: address,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := p.AwaitReady(ctx); err != nil {
		return nil, errors.Join(err, p.End(syscall.SIGKILL))
	}
	return &daemon{p, &http.Client{Timeout: timeout, Transport: &http.Transport{MaxConnsPerHost: 1}}}, nil
}

// stop ends the daemon in order. An end that isn't clean is an error.
func (d *daemon) stop() error {
	d.http.CloseIdleConnections()
	if err := d.Stop(proctest.Patience); err != nil {
		return err
	}
	if d.ExitCode() != 0 {
		return d.Failure()
	}
	return nil
}
