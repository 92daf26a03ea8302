package daemon

import (
	"time"

	"github.com/leafd/leafd/server"
)

// guards is how far this daemon is from having to stop issuing, as GET
// /api/overview shows it. It makes no request.
func (l *life) guards() server.Guards {
	d, w := l.d, l.worker
	stats := w.Stats()
	ceiling := w.Ceiling()
	g := server.Guards{
		Fenced: w.Check() != nil, Ceiling: ceiling,
		CeilingLead: server.Milliseconds(d.cfg.Tuning.CeilingLead), ReportInterval: server.Milliseconds(d.cfg.Tuning.ReportInterval),
		ReportAge: server.Milliseconds(stats.File.Age), Registry: "standalone",
	}
	if ceiling != 0 {
		g.CeilingDistance = server.Milliseconds(ceiling.Sub(d.Clock.Read().Wall()))
	}
	if l.registry == nil {
		return g
	}
	session := l.registry.Session()
	g.Registry, g.RegistryServer = string(session.State), session.Server
	g.RegistryFor = server.Milliseconds(time.Since(session.Since))
	g.RegistryFailing = w.Registry() != nil
	if stats.Registered {
		g.RegistryAge, g.RegistryLease = new(server.Milliseconds(stats.Registry.Age)), new(server.Milliseconds(stats.UntilLease))
	}
	return g
}
