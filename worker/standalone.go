package worker

import (
	"context"
	"fmt"
	"time"
)

// Standalone is the Registry of a daemon without ZooKeeper: its worker ID is
// the configured one, and only the local record remembers anything.
type Standalone struct {
	// WorkerID is 0..the layout's highest; whoever configures it sees to it
	// that no other daemon has the same.
	WorkerID int64
}

var _ Registry = Standalone{}

// Look implements Registry. ErrForeign when the local record is of another worker
// ID, or of a registry.
func (s Standalone) Look(_ context.Context, self Record) (Lookup, error) {
	if self.Cluster != "" {
		return Lookup{}, fmt.Errorf("%w: it is of ZooKeeper's cluster %s, which gave it worker %d: set --zk, or take another data directory",
			ErrForeign, self.Cluster, self.WorkerID)
	}
	if self.WorkerID != NoWorkerID && self.WorkerID != s.WorkerID {
		return Lookup{}, fmt.Errorf("%w: it is of worker %d, and this start is worker %d: give worker %d back, or take another data directory",
			ErrForeign, self.WorkerID, s.WorkerID, self.WorkerID)
	}
	return Lookup{}, nil
}

// Claim implements Registry.
func (s Standalone) Claim(_ context.Context, self Record, _ time.Duration) (Record, error) {
	self.WorkerID, self.Instance, self.Born = s.WorkerID, "", 0
	return self, nil
}

// Report implements Registry. A standalone worker never calls it.
func (Standalone) Report(_ context.Context, r Record, _ bool) (Record, error) { return r, nil }

// Peers implements Registry.
func (Standalone) Peers(context.Context) ([]Peer, error) { return nil, nil }

// Close implements Registry.
func (Standalone) Close() error { return nil }
