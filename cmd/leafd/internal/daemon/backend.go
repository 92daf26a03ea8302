package daemon

import (
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
)

// serveBackend gives the server the parts that are ready by now. l is nil before the
// first life issues, and where snowflake IDs are switched off. A life that was displaced
// refuses, regardless of what its generator would say.
func (d *daemon) serveBackend(l *life) {
	b := &views.Backend{Backend: ids.Backend{Layout: d.cfg.Snowflake.Layout}}
	switch {
	case l != nil:
		b.Worker, b.Guards, b.Slices = l.info, l.guards, l.slices
		if l.registry != nil {
			b.Clock, b.Workers, b.Ask = l.clock, l.workers, l.askPeers
		}
		if b.Refused = l.worker.Check(); b.Refused == nil {
			b.Snowflake = l.ids
		}
	case d.cfg.Snowflake.On:
		b.Refused = reply.ErrStarting
	}
	if segments := d.segments.Load(); segments != nil {
		b.Segments, b.Admin = ids.FromService(segments), d.table
	}
	d.server.SetBackend(b)
	d.serving.Store(true)
}

func (l *life) info() views.WorkerInfo {
	r, d := l.worker.Record(), l.d
	info := views.WorkerInfo{
		ID: r.WorkerID, Node: r.Node, Owner: l.owner, Instance: r.Instance, Cluster: r.Cluster, Layout: r.Layout, Epoch: r.Epoch,
		Ceiling: r.Ceiling, Timestamp: r.Timestamp, Floor: r.Floor, Limit: r.Limit, Since: l.worker.Since(), Started: d.started.Time(), Version: d.Version,
		SlotsLent: l.slices.Lent(d.Clock.Read().Wall()),
	}
	if l.registry != nil {
		info.Address = d.cfg.Listen.Advertise
	}
	return info
}
