package views

import (
	"context"

	"github.com/leafd/leafd/server/ids"

	"github.com/leafd/leafd/segment"
)

// Backend is what the daemon serves once it knows its identity.
type Backend struct {
	ids.Backend
	Admin *segment.Table // nil as Segments
	// Worker describes this daemon; nil while it has no worker ID.
	Worker func() WorkerInfo
	// Workers lists the cluster; nil lists this daemon alone. It returns within
	// its context; worker.ErrUnreachable answers 503 registry_unavailable.
	Workers func(ctx context.Context) ([]WorkerInfo, error)
	// Ask asks most of the live peers for path, and returns their answers, of up to size bytes each, and how
	// many peers were left out. An error where the live set can't be read. nil without a registry.
	Ask func(ctx context.Context, path string, size, most int) (answers []PeerAnswer, leftOut int, err error)
	// Clock tells what the peers said about this clock; nil without a registry.
	Clock func() ClockInfo
	// Guards tells how far this daemon is from having to stop; nil as Worker.
	Guards func() Guards
}
