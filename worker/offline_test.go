package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// comeback is a registry that can't be reached until it has something to say.
type comeback struct {
	mu    sync.Mutex
	found *worker.Lookup // mu protects; nil: unreachable
}

func (c *comeback) says(f worker.Lookup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.found = &f
}

func (c *comeback) Look(context.Context, worker.Record) (worker.Lookup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		return worker.Lookup{}, worker.ErrUnreachable
	}
	return *c.found, nil
}

func (c *comeback) Claim(_ context.Context, self worker.Record) (worker.Record, error) {
	return self, nil
}

func (c *comeback) Report(_ context.Context, r worker.Record, _ bool) (worker.Record, error) {
	return r, nil
}

func (c *comeback) Peers(context.Context) ([]worker.Peer, error) { return nil, nil }
func (c *comeback) Close() error                                 { return nil }

// A daemon that had a clean stop while the registry was out, and started again,
// finds there the ceiling of a report before that stop. Its local record is newer
// and knows that nothing was issued up to there: no reason to fence. (It was one:
// found on the real daemon.) An entry as new as the record, or newer, is one.
func TestCeilingInTheRegistryOlderThanTheRecord(t *testing.T) {
	for name, c := range map[string]struct {
		reported time.Duration // when the registry's entry was, against the local record
		fenced   bool
	}{
		"before the clean stop":     {-time.Millisecond, false},
		"as old as the record":      {0, true},
		"after the record, lost it": {time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon()
			registry := &comeback{}
			d.cfg.Registry, d.cfg.DirectoryID = registry, "here"
			stopped := clock.MillisOf(noon.Add(-time.Second))
			d.recorded(func(r *worker.Record) {
				r.Cluster, r.DirectoryID, r.Timestamp, r.Ceiling = "c", "here", stopped, stopped
				r.Instance, r.Acked, r.Current, r.Confirmed, r.Limit = "i", "earlier", "earlier", true, clock.MillisOf(noon.Add(time.Hour))
			})
			w := d.start(t)
			require.Contains(t, d.events.kinds(), worker.EventOffline)
			require.NotContains(t, d.events.kinds(), worker.EventWaiting)
			run(t, w)
			registry.says(worker.Lookup{
				Cluster: "c", Known: true, WorkerID: 7, Owner: "earlier",
				Timestamp: stopped.Add(c.reported), Ceiling: clock.MillisOf(noon.Add(5 * time.Second)),
			})
			want := worker.EventConfirmed
			if c.fenced {
				want = worker.EventFenced
			}
			require.Eventually(t, func() bool {
				d.clk.Advance(d.cfg.ReportInterval / 10)
				return slices.Contains(d.events.kinds(), want)
			}, 10*time.Second, time.Millisecond, "%v", d.events.kinds())
			require.Equal(t, c.fenced, errors.Is(w.Check(), worker.ErrFenced))
		})
	}
}
