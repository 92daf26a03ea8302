package daemon

import (
	"time"

	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
)

// guards returns how far this daemon is from having to stop issuing, as GET /api/overview shows it.
// It makes no request.
func (l *life) guards() views.Guards {
	d, w := l.d, l.worker
	stats := w.Stats()
	ceiling := w.Ceiling()
	g := views.Guards{
		Fenced: w.Check() != nil, Ceiling: ceiling,
		CeilingLead: reply.Milliseconds(d.cfg.Tuning.CeilingLead), ReportInterval: reply.Milliseconds(d.cfg.Tuning.ReportInterval),
		ReportAge: reply.Milliseconds(stats.File.Age), Registry: "standalone",
	}
	if ceiling != 0 {
		g.CeilingDistance = reply.Milliseconds(ceiling.Sub(d.Clock.Read().Wall()))
	}
	if l.registry == nil {
		return g
	}
	session := l.registry.Session()
	g.Registry, g.RegistryServer = string(session.State), session.Server
	g.RegistryFor = reply.Milliseconds(time.Since(session.Since))
	g.RegistryFailing = w.Registry() != nil
	if stats.Registered {
		g.RegistryAge, g.RegistryLease = new(reply.Milliseconds(stats.Registry.Age)), new(reply.Milliseconds(stats.UntilLease))
	}
	return g
}
