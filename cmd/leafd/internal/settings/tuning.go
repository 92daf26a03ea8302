package settings

import (
	"cmp"
	"time"

	"github.com/leafd/leafd/worker"
)

// Tuning has what no setting changes: real processes in tests are started with other
// values. Zero is the default of the package that uses the value.
type Tuning struct {
	ReportInterval time.Duration // worker.Config's
	CeilingLead    time.Duration // worker.Config's
	MaxForwardStep time.Duration // worker.Config's
	PeerInterval   time.Duration // worker.Config's
	Settle         time.Duration // worker.Config's and zkreg.Config's
	SegmentWait    time.Duration // segment.Config's Wait
	ReadTimeout    time.Duration // server.Config's
	MaxInflight    int           // server.Config's
	QueueWait      time.Duration // server.Config's
	Shutdown       time.Duration // how long requests in flight may take at a stop
	BootID         string        // names this run of the machine; empty: the kernel tells it
}

// complete puts in the defaults of what settings are compared with, or commands show.
func (t Tuning) complete() Tuning {
	t.ReportInterval = cmp.Or(t.ReportInterval, worker.DefaultReportInterval)
	t.CeilingLead = cmp.Or(t.CeilingLead, worker.DefaultCeilingLead)
	return t
}
