package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// settings are what the daemons of one step have in common.
type settings struct {
	root     string
	layout   snowflake.Layout
	session  time.Duration // its time-out; the default if 0
	releases bool          // at the stop
	report   time.Duration // the time between two; startReport if 0
	round    time.Duration // the time between two looks at the peers; the default if 0
}

// settle is how long a claim settles here: settles-first's time would count no further requests.
const settle = 200 * time.Millisecond

// startReport is long: a thousand daemons share the processors here, and none of them is to
// fail, or to report again, for want of them.
const startReport = 20 * time.Second

// patience bounds a start, and each wait, for a machine under load.
const patience = 3 * time.Minute

// daemon is what a process has of worker and zkreg, without a server and with its file in memory.
type daemon struct {
	worker   *worker.Worker
	session  *session
	registry *registry
	started  int64         // requests until it was shown as live
	took     time.Duration // from when all were started, until then

	cancel context.CancelFunc // ends Run
	ended  chan error         // Run's
}

// registry tells of the reports that went through to the end.
type registry struct {
	*zkreg.Registry

	reports atomic.Int64 // after which we are shown as live
	once    sync.Once
	shown   chan struct{} // closed at the first one
}

// Show implements worker.Registry.
func (r *registry) Show(ctx context.Context, me worker.Record, live bool) error {
	err := r.Registry.Show(ctx, me, live)
	if err == nil && live {
		r.reports.Add(1)
		r.once.Do(func() { close(r.shown) })
	}
	return err
}

// clocks are the peers', which all have our time.
type clocks struct{}

// Probe implements clock.Prober.
func (clocks) Probe(_ context.Context, addresses []string) []clock.Sample {
	samples := make([]clock.Sample, len(addresses))
	for i, address := range addresses {
		samples[i] = clock.Sample{Address: address, Node: address, Owner: address, RTT: time.Millisecond}
	}
	return samples
}

// start starts daemon i on the directory that cache stands for, and returns once it is shown
// as live.
func (s settings) start(ctx context.Context, servers []string, i int, cache *cachetest.Mem) (*daemon, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	d := &daemon{session: &session{temporary: s.root + "/leaf_temporary"}, ended: make(chan error, 1)}
	node := fmt.Sprintf("node-%d", i)
	opened, err := zkreg.Open(zkreg.Config{
		Servers: servers, Root: s.root, Node: node, Address: fmt.Sprintf("10.0.%d.%d:8080", i/250, i%250+1),
		Layout: s.layout, SessionTimeout: s.session, Clock: clock.System(), Dial: d.session.dial,
	})
	if err != nil {
		return nil, err
	}
	d.registry = &registry{Registry: opened, shown: make(chan struct{})}
	report := cmp.Or(s.report, startReport)
	d.worker, err = worker.Start(ctx, worker.Config{
		Node: node, Owner: uuid.NewString(), DirectoryID: node, Layout: s.layout.String(), Epoch: s.layout.Epoch, Clock: clock.System(), Cache: cache,
		Registry: d.registry, Prober: clocks{}, MaxWait: patience, Settle: settle, ReleaseOnStop: s.releases, ReportInterval: report, CeilingLead: 2 * report, PeerInterval: s.round,
	})
	if err != nil { // the registry is closed
		return nil, fmt.Errorf("%s: %w", node, err)
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	d.cancel = end
	go func() { d.ended <- d.worker.Run(running) }()
	select {
	case <-d.registry.shown:
		d.started, d.took = d.session.all.Load(), time.Since(began)
		return d, nil
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("%s is not shown as live: %w", node, ctx.Err()), d.worker.Registry(), d.stop())
	}
}

// stop is a clean one.
func (d *daemon) stop() error {
	d.cancel()
	err := <-d.ended
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(err, d.worker.Close(ctx, clock.System().Read().Wall()))
}
