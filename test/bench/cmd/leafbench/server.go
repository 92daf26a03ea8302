package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/leafd/leafd/test/bench/internal/proc"
)

const (
	// anyCPU leaves a server all CPUs, as it is run for real.
	anyCPU = -1
	// readyWithin is how long a server may take to answer.
	readyWithin = 30 * time.Second
	// pollEvery is how often it is asked meanwhile: it bounds what the
	// asking adds to a start-up time.
	pollEvery = 500 * time.Microsecond

	snowflakePath = "/api/snowflake/get/x"
	segmentPath   = "/api/segment/get/leaf-segment-test"
)

// server is a process that answers HTTP.
type server struct {
	*proc.Process
	base string
}

// bareServer starts the yardstick.
func (o options) bareServer(ctx context.Context) (*server, error) {
	addr, err := proc.FreeAddr()
	if err != nil {
		return nil, err
	}
	return o.start(ctx, o.serverCPU, addr, o.bare, "-addr", addr)
}

// leafdServer starts leafd on embedded defaults with its data in dir.
func (o options) leafdServer(ctx context.Context, cpu int, dir string) (*server, error) {
	addr, err := proc.FreeAddr()
	if err != nil {
		return nil, err
	}
	return o.start(ctx, cpu, addr, o.leafd, "serve", "--listen", addr, "--data-dir", dir, "--log-level", "warn")
}

func (o options) start(ctx context.Context, cpu int, addr string, args ...string) (*server, error) {
	if _, err := os.Stat(args[0]); err != nil {
		return nil, fmt.Errorf("%w; `make bench` builds it", err)
	}
	p, err := proc.Start(ctx, proc.Config{CPU: cpu, Args: args})
	if err != nil {
		return nil, err
	}
	return &server{Process: p, base: "http://" + addr}, nil
}

// answers waits until the server answers path with 200 and returns how long
// after its start that was.
func (s *server) answers(ctx context.Context, path string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	var last error
	for {
		_, err := s.get(ctx, path)
		if err == nil {
			return time.Since(s.Started), nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-s.Exited():
			return 0, s.Failure()
		case <-ctx.Done():
			return 0, fmt.Errorf("%s%s: no answer: %w", s.base, path, errors.Join(ctx.Err(), last))
		case <-time.After(pollEvery):
		}
	}
}

// get returns the body of a 200.
func (s *server) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}

// client opens a connection for each question: none outlives a server.
//
//nolint:gochecknoglobals // never changed
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// stopAll stops servers; it is deferred, so that it adds to an error.
func stopAll(err *error, servers ...*server) {
	for _, s := range servers {
		if s != nil {
			*err = errors.Join(*err, s.Stop())
		}
	}
}
