package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// crowd is many peers with the right time; luck is what a peer drawn says, whichever it is.
type crowd struct {
	size   int
	luck   func() time.Duration
	mu     sync.Mutex
	rounds [][]string // mu protects; the peers asked in each, in this order
}

const thousand = 1024

// live makes the peers of p live in d's registry.
func (p *crowd) live(t *testing.T, d *daemon) *registrytest.World {
	t.Helper()
	model, _ := d.inCluster(t, registrytest.Options{})
	for i := range p.size {
		model.PlantLive(fmt.Sprintf("peer%04d:1", i), fmt.Sprint(i), "")
	}
	d.cfg.Prober = p
	return model
}

func (p *crowd) Probe(_ context.Context, addresses []string) []clock.Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	drawn := true
	if last := len(p.rounds) - 1; last >= 0 && len(p.rounds[last]) == clock.Drawn && len(addresses) == p.size-clock.Drawn {
		drawn = false
		p.rounds[last] = append(p.rounds[last], addresses...)
	} else {
		p.rounds = append(p.rounds, addresses)
	}
	samples := make([]clock.Sample, 0, len(addresses))
	for _, a := range addresses {
		s := clock.Sample{Address: a, Owner: "owner of " + a}
		if drawn {
			s.Offset = p.luck()
		}
		samples = append(samples, s)
	}
	return samples
}

// asked returns how many were asked in each round since the last call.
func (p *crowd) asked() (each []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, round := range p.rounds {
		each = append(each, len(round))
	}
	p.rounds = nil
	return each
}

// passRounds lets so many rounds pass, at least.
func passRounds(n int) { clocktest.Pass(time.Duration(n) * worker.DefaultPeerInterval) }

// The peers asked in a round of many, of few, and of one more than a few.
func TestPeersAskedInARound(t *testing.T) {
	for _, tt := range []struct{ peers, asked int }{{1, 1}, {23, 23}, {24, 24}, {25, 24}, {thousand, 24}, {3000, 24}} {
		clocktest.Run(t, fmt.Sprint(tt.peers), func(t *testing.T) {
			d := newDaemon()
			p := &crowd{size: tt.peers, luck: func() time.Duration { return 0 }}
			p.live(t, d)
			w := d.start(t)
			require.Equal(t, []int{tt.asked}, p.asked(), "at the start")
			require.Len(t, w.Record().Peers, min(tt.peers, 1024), "what a start without the registry can ask")
			run(t, w)
			const rounds = 100
			passRounds(rounds)
			met, same := map[string]bool{}, 0
			p.mu.Lock()
			defer p.mu.Unlock()
			for i, round := range p.rounds {
				require.Len(t, round, tt.asked)
				once := map[string]bool{}
				for _, a := range round {
					met[a], once[a] = true, true
				}
				require.Len(t, once, tt.asked, "each once")
				if i > 0 && fmt.Sprint(round) == fmt.Sprint(p.rounds[i-1]) {
					same++
				}
			}
			require.GreaterOrEqual(t, len(p.rounds), rounds)
			require.Less(t, len(p.rounds), rounds*4/3+2, "a quarter sooner at most")
			require.Greater(t, len(p.rounds), rounds*11/10, "with jitter")
			if tt.asked > 1 {
				require.Zero(t, same, "each draw is a new one")
			}
			require.GreaterOrEqual(t, len(met), min(tt.peers, 850), "everybody is asked in time, wherever its address stands in the order")
		})
	}
}

// No draw of peers throws out a right clock.
func TestUnluckyDraw(t *testing.T) {
	for name, tt := range map[string]struct {
		luck      func() time.Duration
		estimator clock.Estimator
	}{
		"all drawn are an hour ahead":            {luck: func() time.Duration { return time.Hour }},
		"all drawn are behind":                   {luck: func() time.Duration { return -worker.DefaultClockThreshold }},
		"those drawn are off to either side":     {luck: of(2, -time.Hour, time.Hour)},
		"one drawn is off, and the mean decides": {luck: of(clock.Drawn, time.Hour, 0), estimator: clock.Mean},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			d.cfg.Estimator = tt.estimator
			p := &crowd{size: thousand, luck: tt.luck}
			model := p.live(t, d)
			w := d.start(t)
			run(t, w)
			passRounds(20)
			rounds := p.asked()
			require.GreaterOrEqual(t, len(rounds), 20)
			for _, asked := range rounds {
				require.Equal(t, thousand, asked, "all peers were asked each time")
			}
			require.Equal(t, clock.Agree, w.Vote())
			require.NoError(t, check(w))
			require.Equal(t, []string{d.cfg.Node}, liveNodes(t, model))
			require.Empty(t, w.Troubles())
		})
	}
}

// of is what those drawn say where one in n says one thing, and the others say another.
func of(n int, one, others time.Duration) func() time.Duration {
	i := 0
	return func() time.Duration {
		if i++; i%n == 0 {
			return one
		}
		return others
	}
}
