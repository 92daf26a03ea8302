package main

import (
	"context"
	"errors"
	"time"

	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/worker"
)

// pending stands in for the generator while the worker ID is not certain.
type pending struct{}

func (pending) NextAt(context.Context, time.Duration) (int64, error) { return 0, server.ErrStarting }
func (pending) NextN(context.Context, []int64) error                 { return server.ErrStarting }
func (pending) Check() error                                         { return server.ErrStarting }

// checked is a source of snowflake IDs that tells whether it could issue one.
type checked interface {
	server.Snowflake
	Check() error
}

// serveBackend makes the server answer with what is there by now. ids is nil
// where snowflake IDs are switched off, w while the worker ID is not certain.
func (d *daemon) serveBackend(ids checked, w *worker.Worker) {
	b := &server.Backend{Layout: d.cfg.Layout}
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
		b.Admin, b.Stops = d.store, d.stops
		b.Checks = append(b.Checks, server.Check{Name: "segment", Ready: d.segments.Ready})
	}
	d.server.SetBackend(b)
	d.serving.Store(true)
}

// snowflakeReady asks the worker first: it knows the reasons, the generator
// only sees the ceiling.
func snowflakeReady(ids checked, w *worker.Worker) error {
	if w != nil {
		if err := w.Check(); err != nil {
			return err
		}
	}
	return ids.Check()
}

// The states of a worker, as GET /api/worker tells them.
const (
	stateStarting   = "starting" // of no daemon that answers there: metrics only
	stateActive     = "active"
	stateNotIssuing = "not_issuing"
	stateNotReady   = "not_ready" // issuing, but the peers have another time
	stateFenced     = "fenced"
)

func (d *daemon) workerInfo(ids checked, w *worker.Worker) server.WorkerInfo {
	r := w.Record()
	info := server.WorkerInfo{
		ID: r.WorkerID, Node: r.Node, Owner: d.owner, Layout: r.Layout, Epoch: r.Epoch, State: workerState(ids, w),
		Ceiling: r.Ceiling, Timestamp: r.Timestamp, Started: d.started.Time(), Version: thisBuild().Version,
	}
	if d.registry != nil {
		info.Address = d.cfg.Advertise
	}
	return info
}

func workerState(ids checked, w *worker.Worker) string {
	switch err := snowflakeReady(ids, w); {
	case err == nil:
		return stateActive
	case errors.Is(err, worker.ErrFenced):
		return stateFenced
	case errors.Is(err, worker.ErrPeersDisagree):
		return stateNotReady
	default:
		return stateNotIssuing
	}
}

// clockInfo is what the peers said of our clock.
func clockInfo(w *worker.Worker) server.ClockInfo {
	samples, verdict, checked := w.Peers()
	return server.ClockInfo{Checked: checked, Verdict: verdict, Threshold: w.Threshold(), Samples: samples}
}
