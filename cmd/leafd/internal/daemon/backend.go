package daemon

import (
	"context"
	"time"

	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/state"
	"github.com/leafd/leafd/worker"
)

// pending stands in for the generator while the worker ID is not certain.
type pending struct{}

func (pending) NextAt(context.Context, time.Duration) (int64, error) { return 0, server.ErrStarting }
func (pending) NextN(context.Context, []int64) error                 { return server.ErrStarting }
func (pending) Check() error                                         { return server.ErrStarting }

// checked is a source of snowflake IDs that can be asked whether it issues.
type checked interface {
	server.Snowflake
	Check() error
}

// serveBackend gives the server the parts that are ready by now. ids is nil where
// snowflake IDs are switched off, w while the worker ID is not certain.
func (d *daemon) serveBackend(ids checked, w *worker.Worker) {
	b := &server.Backend{Layout: d.cfg.Snowflake.Layout}
	if ids != nil {
		b.Snowflake = ids
		b.Checks = append(b.Checks, server.Check{Name: "snowflake", Ready: func() error { return snowflakeReady(ids, w) }})
	}
	if w != nil {
		b.Worker = func() server.WorkerInfo { return d.workerInfo(ids, w) }
		b.Guards = func() server.Guards { return d.guards(w) }
		if d.registry != nil {
			b.Clock = func() server.ClockInfo { return clockInfo(w) }
			b.Workers = d.newView(w).workers
		}
	}
	if d.segments != nil {
		b.Segments = server.FromService(d.segments)
		b.Admin, b.Stopped = d.store, d.stops
		b.Checks = append(b.Checks, server.Check{Name: "segment", Ready: d.segments.Ready})
	}
	d.server.SetBackend(b)
	d.serving.Store(true)
}

// snowflakeReady asks the worker first, which knows the reasons; the generator sees
// the ceiling alone.
func snowflakeReady(ids checked, w *worker.Worker) error {
	if w != nil {
		if err := w.Check(); err != nil {
			return err
		}
	}
	return ids.Check()
}

func (d *daemon) workerInfo(ids checked, w *worker.Worker) server.WorkerInfo {
	r := w.Record()
	info := server.WorkerInfo{
		ID: r.WorkerID, Node: r.Node, Owner: d.owner, Instance: r.Instance, Layout: r.Layout, Epoch: r.Epoch, State: workerState(ids, w),
		Ceiling: r.Ceiling, Timestamp: r.Timestamp, Floor: r.Floor, Limit: r.Limit, Started: d.started.Time(), Version: d.deps.Version,
	}
	if d.registry != nil {
		info.Address = d.cfg.Listen.Advertise
	}
	return info
}

// workerState is the worker's state in GET /api/worker.
func workerState(ids checked, w *worker.Worker) string {
	return state.OfWorker(snowflakeReady(ids, w)).Worker
}

// clockInfo is the last comparison of our clock with the peers'.
func clockInfo(w *worker.Worker) server.ClockInfo {
	samples, verdict, checked := w.Peers()
	return server.ClockInfo{Checked: checked, Verdict: verdict, Threshold: w.Threshold(), Samples: samples}
}
