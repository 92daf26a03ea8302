package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/leafd/leafd/client/loadtest"
	"github.com/leafd/leafd/internal/proctest"
)

// measureBare puts the single requests of the same mix and rate on a server that only answers: what
// the machine, its network and the load itself add to latencies is in its figures too.
func (f *figures) measureBare(ctx context.Context, o options, say func(string, ...any)) (err error) {
	if o.bare == "" {
		return nil
	}
	address, err := proctest.FreeAddress()
	if err != nil {
		return err
	}
	server, err := proctest.Start(exec.Command(o.bare, "-addr", address)) //nolint:noctx // it is ended below
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.End(syscall.SIGKILL)) }()
	if err := awaitListener(ctx, address); err != nil {
		return fmt.Errorf("%s: %w", o.bare, err)
	}
	d := min(10*time.Second, o.duration/6)
	say("the same rate for %s on a server that only answers", d)
	streams := singles(mix(f.rate, o.outage))
	results := make([]*loadtest.Result, len(streams))
	errs := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() {
			results[i], errs[i] = loadtest.Run(ctx, loadtest.Config{
				URLs: []string{"http://" + address}, Mode: s.mode, Keys: s.keys, Batch: 1, Rate: f.rate * s.share,
				Tick: o.tick, Clients: s.clients(o.clients), Pipeline: o.pipeline, Duration: d, Timeout: timeout,
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", o.bare, err)
	}
	f.bare = append(f.bare, loadtest.Together(results...).P999)
	return nil
}

func awaitListener(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it does not listen: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
