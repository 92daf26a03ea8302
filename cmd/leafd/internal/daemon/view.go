package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/worker"
)

// viewAge is how old GET /api/workers may be: ZooKeeper is asked no more often,
// however many clients ask.
const viewAge = 2 * time.Second

// view is the cluster in GET /api/workers.
type view struct {
	l *life

	turn chan struct{} // holds a token while the registry is asked

	mu   sync.Mutex
	list []server.WorkerInfo // mu protects; never changed once stored
	read time.Duration       // mu protects; monotonic time of list
}

func newView(l *life) *view { return &view{l: l, turn: make(chan struct{}, 1)} }

// workers lists the entries of the registry.
func (v *view) workers(ctx context.Context) ([]server.WorkerInfo, error) {
	if list := v.fresh(); list != nil {
		return list, nil
	}
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if list := v.fresh(); list != nil { // the caller before us has asked
		return list, nil
	}
	entries, err := v.l.registry.Entries(ctx)
	if err != nil {
		return nil, err
	}
	list := v.show(entries)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list, v.read = list, v.l.d.clk.Mono()
	return list, nil
}

func (v *view) fresh() []server.WorkerInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.list == nil || v.l.d.clk.Mono()-v.read > viewAge {
		return nil
	}
	return v.list
}

// show adds to the entries the offsets of the last comparison with the peers.
func (v *view) show(entries []worker.Entry) []server.WorkerInfo {
	samples, _, _ := v.l.worker.Peers()
	offsets := map[string]server.Milliseconds{}
	for _, s := range samples {
		if s.Err == nil {
			offsets[s.Address] = server.Milliseconds(s.Offset)
		}
	}
	self := v.l.worker.Record()
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
