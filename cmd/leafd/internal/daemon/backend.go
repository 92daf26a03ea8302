package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/server/state"
	"github.com/leafd/leafd/worker"
)

// refusing stands in for the generator where there is no life that may issue.
type refusing struct{ why error }

// NextAt implements server.Snowflake.
func (r refusing) NextAt(context.Context, time.Duration, int) (first int64, n int, err error) {
	return 0, 0, r.why
}

// NextN implements server.Snowflake.
func (r refusing) NextN(context.Context, []int64) error { return r.why }

// NextRange implements server.Snowflake.
func (r refusing) NextRange(context.Context, int) (first int64, n int, err error) {
	return 0, 0, r.why
}

// serveBackend gives the server the parts that are ready by now. l is nil before the
// first life issues, and where snowflake IDs are switched off. A life that was displaced
// refuses whatever its generator would say (daemon.N1).
func (d *daemon) serveBackend(l *life) {
	b := &server.Backend{Layout: d.cfg.Snowflake.Layout, Degraded: d.super.degraded}
	switch {
	case l != nil:
		b.Snowflake, b.Worker, b.Guards = l.ids, l.info, l.guards
		b.Checks = append(b.Checks, server.Check{Name: "snowflake", Ready: l.ready})
		if l.registry != nil {
			b.Clock, b.Workers, b.Ask = l.clock, l.workers, l.askPeers
		}
		if why := l.worker.Check(); errors.Is(why, worker.ErrFenced) {
			b.Snowflake = refusing{why}
		}
	case d.cfg.Snowflake.On:
		b.Snowflake = refusing{server.ErrStarting}
		b.Checks = append(b.Checks, server.Check{Name: "snowflake", Ready: func() error { return server.StartingFor(d.events.waitsFor()) }})
	}
	if d.segments != nil {
		b.Segments = server.FromService(d.segments)
		b.Admin = d.table
		b.Checks = append(b.Checks, server.Check{Name: "segment", Ready: d.segments.Ready})
	}
	d.server.SetBackend(b)
	d.serving.Store(true)
}

// ready tells why no IDs are issued: where this life was displaced, why the next one
// can't begin.
func (l *life) ready() error {
	if why := l.refused.Load(); why != nil {
		return *why
	}
	return l.check()
}

// check asks the worker first, which knows the reasons; the generator sees the ceiling
// alone.
func (l *life) check() error {
	if err := l.worker.Check(); err != nil {
		return err
	}
	return l.ids.Check()
}

func (l *life) info() server.WorkerInfo {
	r, d := l.worker.Record(), l.d
	info := server.WorkerInfo{
		ID: r.WorkerID, Node: r.Node, Owner: l.owner, Instance: r.Instance, Cluster: r.Cluster, Layout: r.Layout, Epoch: r.Epoch, State: l.state(),
		Ceiling: r.Ceiling, Timestamp: r.Timestamp, Floor: r.Floor, Limit: r.Limit, Since: l.worker.Since(), Started: d.started.Time(), Version: d.deps.Version,
	}
	if l.registry != nil {
		info.Address = d.cfg.Listen.Advertise
	}
	return info
}

// state is the worker's state in GET /api/worker.
func (l *life) state() string { return state.OfWorker(l.check()).Worker }

// clock is the last comparison of our clock with the peers'.
func (l *life) clock() server.ClockInfo {
	samples, verdict, checked := l.worker.Peers()
	for i := range samples {
		if s := &samples[i]; s.Err != nil {
			s.Err = peerclock.Class(s.Err)
		}
	}
	return server.ClockInfo{Checked: checked, Verdict: verdict, Threshold: l.worker.Threshold(), Samples: samples}
}
