package main

import (
	"context"
	"errors"
	"fmt"
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
	server, err := proctest.StartDaemon(proctest.Config{Command: []string{o.bare, "-addr", address}, Address: address})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.End(syscall.SIGKILL)) }()
	listening, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := server.AwaitListening(listening); err != nil {
		return err
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
				URLs: []string{server.URL}, Mode: s.mode, Keys: s.keys, Batch: 1, Rate: f.rate * s.share,
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
