package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// impostor is the one peer of a daemon, and tells what it issues as.
type impostor struct {
	clock.Sample
	mu    sync.Mutex
	only  int // mu protects; how many answers tell that; < 0: all
	asked int // mu protects; how many did
}

func (p *impostor) Probe(_ context.Context, addresses []string) []clock.Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	samples := make([]clock.Sample, len(addresses))
	for i, a := range addresses {
		if samples[i] = (clock.Sample{Address: a, Owner: p.Owner}); p.only < 0 || p.asked < p.only {
			p.asked++
			samples[i] = p.Sample
			samples[i].Address = a
		}
	}
	return samples
}

func (p *impostor) tells(only int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.only, p.asked = only, 0
}

func (p *impostor) told() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// Which rival ends a life while it issues, and which keeps it from beginning.
func TestRivals(t *testing.T) {
	const other = "99999999-0000-0000-0000-000000000000" // greater than ours
	for name, tt := range map[string]struct {
		change  func(s *clock.Sample)
		only    int // how many answers tell it
		running bool
		start   bool
	}{
		"began earlier":                {nil, -1, true, true},
		"began later":                  {func(s *clock.Sample) { s.Since += 2 }, -1, false, true},
		"at once, its owner lower":     {func(s *clock.Sample) { s.Since++; s.Owner = "0" }, -1, true, true},
		"said once":                    {nil, 1, false, false},
		"does not issue":               {func(s *clock.Sample) { s.Since = 0 }, -1, false, false},
		"another worker ID":            {func(s *clock.Sample) { s.WorkerID++ }, -1, false, false},
		"another cluster":              {func(s *clock.Sample) { s.Cluster = "another" }, -1, false, false},
		"we ourselves, by another way": {func(s *clock.Sample) { s.Owner = ours }, -1, false, false},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model, _ := d.inCluster(t, registrytest.Options{})
			d.cfg.Owner = ours
			peer := &impostor{Sample: clock.Sample{Owner: other}}
			d.cfg.Prober = peer
			model.PlantLive("a:1", "other", other)
			w := d.start(t)
			ctx, stop := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- w.Run(ctx) }()
			peer.mu.Lock()
			peer.Cluster, peer.WorkerID, peer.Since = w.Record().Cluster, w.ID(), w.Since()-1
			if tt.change != nil {
				tt.change(&peer.Sample)
			}
			peer.mu.Unlock()
			peer.tells(tt.only)
			asked := 2
			if tt.only > 0 {
				asked = tt.only
			}
			d.eventually(t, 100*time.Millisecond, func() bool { return peer.told() >= asked && (!tt.running || w.Since() == 0) })
			if tt.running {
				require.ErrorIs(t, check(w), worker.ErrFenced)
				require.ErrorContains(t, check(w), "at a:1, owner ")
				require.Zero(t, w.Ceiling())
			} else {
				require.NoError(t, check(w))
			}

			stop()
			err := <-ran
			require.Equal(t, tt.running, errors.Is(err, worker.ErrFenced), err)
			before := w.Record()
			_ = w.Close(t.Context(), d.clk.Millis()) // fenced, or not
			peer.tells(tt.only)
			clocktest.Pass(time.Minute)
			d.join(model, registrytest.Options{}) // another life
			if peer.Owner == ours {
				peer.Owner = d.cfg.Owner
			}
			w, err = worker.Start(t.Context(), d.cfg)
			if tt.start {
				require.ErrorIs(t, err, worker.ErrHeld)
				require.NotContains(t, liveNodes(t, model), d.cfg.Node)
				d.join(model, registrytest.Options{})
				peer.tells(0)
				w, err = worker.Start(t.Context(), d.cfg)
			}
			require.NoError(t, err)
			require.Equal(t, before.WorkerID, w.ID(), "it has lost nothing by it")
			require.Equal(t, before.Instance, w.Record().Instance)
			require.NotContains(t, d.events.kinds(), worker.EventRecordLost)
			require.NoError(t, w.Close(t.Context(), d.clk.Millis()))
		})
	}
}

const ours = "11111111-0000-0000-0000-000000000000"
