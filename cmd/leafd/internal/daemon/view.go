package daemon

import (
	"context"

	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/worker"
)

// workers lists the entries of the registry.
func (l *life) workers(ctx context.Context) ([]server.WorkerInfo, error) {
	entries, err := l.registry.Entries(ctx)
	if err != nil {
		return nil, err
	}
	return l.show(entries), nil
}

// show adds to the entries the offsets of the last comparison with the peers.
func (l *life) show(entries []worker.Entry) []server.WorkerInfo {
	samples, _, _ := l.worker.Peers()
	offsets := map[string]server.Milliseconds{}
	for _, s := range samples {
		if s.Err == nil {
			offsets[s.Address] = server.Milliseconds(s.Offset)
		}
	}
	self := l.worker.Record()
	list := make([]server.WorkerInfo, 0, len(entries))
	for _, e := range entries {
		info := server.WorkerInfo{
			ID: e.WorkerID, Node: e.Node, Owner: e.Owner, Instance: e.Instance, Address: e.Address, State: string(e.State), Live: e.Live,
			Ceiling: e.Ceiling, Timestamp: e.Timestamp, Floor: e.Floor, Limit: e.Limit,
		}
		if from, byItself := e.FreeFrom(); byItself {
			info.FreeFrom = &from
		}
		if offset, known := offsets[e.Address]; known && e.Live && !self.Holds(e) {
			info.Offset = &offset
		}
		list = append(list, info)
	}
	return list
}
