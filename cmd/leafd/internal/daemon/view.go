package daemon

import (
	"context"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/peerclock"
)

// workers lists the entries of the registry, with what the last comparison with the peers says of
// the live ones' clocks.
func (l *life) workers(ctx context.Context) ([]server.WorkerInfo, error) {
	entries, err := l.registry.Entries(ctx)
	if err != nil {
		return nil, err
	}
	samples, _, _ := l.worker.Peers()
	asked := map[string]clock.Sample{}
	for _, s := range samples {
		if s.Err != nil {
			s.Err = peerclock.Class(s.Err)
		}
		asked[s.Address] = s
	}
	self, now := l.worker.Record(), l.d.clk.Read().Wall()
	list := make([]server.WorkerInfo, 0, len(entries))
	for _, e := range entries {
		info := server.InfoOf(e, now)
		if sample, known := asked[e.Address]; known && e.Live && !self.Holds(e) {
			info.SetOffset(sample)
		}
		list = append(list, info)
	}
	return list, nil
}
