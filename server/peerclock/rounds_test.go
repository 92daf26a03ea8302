package peerclock_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/peerclock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// Over HTTP: a worker amid a hundred sends each of its rounds' requests to
// 24 of them; while their clocks are off it sends one to each.
func TestRequestsOfARound(t *testing.T) {
	const peers = 100
	var mu sync.Mutex
	var ahead time.Duration // mu protects
	var requests int        // mu protects
	clk := steady{clock.System(), time.Now()}
	model := registrytest.InMemory(t, clk)
	model.Init(snowflake.DefaultLayout())
	for i := range peers {
		address := serve(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			requests++
			if r.URL.Path != "/api/clock" || r.Method != http.MethodGet {
				t.Errorf("%s %s", r.Method, r.URL.Path)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b%06d","timestamp":%d}`, i, time.Now().Add(ahead).UnixMilli())
		})
		model.PlantLive(address, fmt.Sprint(i), "")
	}
	rounds := &probes{Prober: newClient(t, func(cfg *peerclock.Config) { cfg.Clock = clk })}
	w, err := worker.Start(t.Context(), worker.Config{
		Node: "127.0.0.1:1", Owner: "this", Layout: "41+10+12", Epoch: snowflake.DefaultEpoch,
		Clock: clk, Cache: &cachetest.Mem{}, Registry: model.Open("127.0.0.1:1", "127.0.0.1:1", registrytest.Options{}),
		Prober: rounds, MaxWait: time.Minute, PeerInterval: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return requests
	}
	require.Equal(t, []int{24}, rounds.all(), "at the start")
	require.Equal(t, 24, count())

	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	require.Eventually(t, func() bool { return len(rounds.all()) > 10 }, time.Minute, time.Millisecond)
	mu.Lock()
	ahead = time.Hour
	mu.Unlock()
	require.Eventually(t, func() bool { return w.Vote() == clock.Outvoted }, time.Minute, time.Millisecond)
	_, verdict, _ := w.Peers()
	require.Equal(t, clock.Verdict{Offset: verdict.Offset, Asked: peers, Answered: peers}, verdict)
	mu.Lock()
	ahead = 0
	mu.Unlock()
	require.Eventually(t, func() bool { return w.Vote() == clock.Agree }, time.Minute, time.Millisecond)
	n := len(rounds.all())
	require.Eventually(t, func() bool { return len(rounds.all()) > n+10 }, time.Minute, time.Millisecond)
	rounds.pause.Lock() // no round is cut short
	stop()
	rounds.pause.Unlock()
	require.NoError(t, <-ran)
	sum, whole := 0, 0
	for _, asked := range rounds.all() {
		sum += asked
		if asked == peers-clock.Drawn { // the others, after a draw
			whole++
		} else {
			require.Equal(t, clock.Drawn, asked)
		}
	}
	require.Equal(t, sum, count(), "one request for each that is asked")
	require.Positive(t, whole)
	require.NoError(t, w.Close(t.Context(), clk.Read().Wall()))
}

// probes notes how many are asked at once.
type probes struct {
	clock.Prober

	pause sync.Mutex // held while they are asked
	mu    sync.Mutex
	asked []int // mu protects
}

// steady is a clock of which two readings never lie apart, however busy the machine is: a peer
// would be asked again then.
type steady struct {
	clock.Clock

	since time.Time
}

// Read implements clock.Clock.
func (s steady) Read() clock.Reading {
	passed := time.Since(s.since)
	return clock.Reading{WallNS: s.since.UnixNano() + int64(passed), Mono: passed, Boot: passed}
}

// Wall implements clock.Clock.
func (s steady) Wall() (wallNS int64, mono time.Duration) {
	r := s.Read()
	return r.WallNS, r.Mono
}

// Mono implements clock.Clock.
func (s steady) Mono() time.Duration { return time.Since(s.since) }

func (p *probes) Probe(ctx context.Context, addresses []string) []clock.Sample {
	p.pause.Lock()
	defer p.pause.Unlock()
	if ctx.Err() == nil { // else no peer is asked
		p.mu.Lock()
		p.asked = append(p.asked, len(addresses))
		p.mu.Unlock()
	}
	return p.Prober.Probe(ctx, addresses)
}

func (p *probes) all() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]int(nil), p.asked...)
}
