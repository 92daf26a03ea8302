package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

const (
	// anyCPU leaves a server all CPUs, as it is run for real.
	anyCPU    = -1
	serverCPU = 0
	// readyWithin is how long a server may take to answer.
	readyWithin = 30 * time.Second
	// stopWithin is how long it may take to stop.
	stopWithin = 15 * time.Second
	// pollEvery is how often it is asked meanwhile: it bounds what the
	// asking adds to a start-up time.
	pollEvery = 500 * time.Microsecond

	snowflakePath = "/api/snowflake/get/x"
	segmentTag    = "leaf-segment-test"
	segmentPath   = "/api/segment/get/" + segmentTag
)

// server is a process that answers.
type server struct {
	*proctest.Daemon
	redis   string    // address of the Redis protocol; empty: none
	started time.Time // just before the process was made
}

// leafdServer starts leafd on embedded defaults with its data in dir.
func (o options) leafdServer(cpu int, dir string) (*server, error) {
	redis, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	s, err := start(cpu, o.leafd, func(address string) []string {
		return []string{"serve", "--listen", address, "--listen-redis", redis, "--data-dir", dir, "--log-level", "warn"}
	})
	if err == nil {
		s.redis = redis
	}
	return s, err
}

// start starts program on a free address, pinned to cpu with GOMAXPROCS=1, or on anyCPU.
func start(cpu int, program string, args func(address string) []string) (*server, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; `make bench` builds it", err)
	}
	address, err := proctest.FreeAddress()
	if err != nil {
		return nil, err
	}
	command, env := append([]string{program}, args(address)...), os.Environ()
	if cpu != anyCPU {
		// taskset replaces itself by the server: one process, one pid.
		command = append([]string{"taskset", "-c", strconv.Itoa(cpu)}, command...)
		env = append(env, "GOMAXPROCS=1")
	}
	s := &server{started: time.Now()}
	s.Daemon, err = proctest.StartDaemon(proctest.Config{Command: command, Env: env, Address: address})
	return s, err
}

// answers waits until the server answers path with 200 and returns how long
// after its start that was.
func (s *server) answers(ctx context.Context, path string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	var took time.Duration
	err := s.Await(ctx, pollEvery, func(ctx context.Context) error {
		err := s.get(ctx, path)
		took = time.Since(s.started)
		return err
	})
	return took, err
}

// get wants a 200.
func (s *server) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(err, errors.New(resp.Status))
	}
	return nil
}

// client opens a connection for each question: none outlives a server.
//
//nolint:gochecknoglobals // never changed
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// stopAll stops servers; it is deferred, so that it adds to an error.
func stopAll(err *error, servers ...*server) {
	for _, s := range servers {
		if s != nil {
			*err = errors.Join(*err, s.Stop(stopWithin))
		}
	}
}
