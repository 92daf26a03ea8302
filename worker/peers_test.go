package worker_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

const second = time.Second

// amid gives d a registry in which these peers are live.
func (d *daemon) amid(t *testing.T, peers ...string) *registrytest.World {
	t.Helper()
	model, _ := d.inCluster(t, registrytest.Options{})
	for _, peer := range peers {
		model.PlantLive(peer, peer, peer)
	}
	return model
}

// What the peers say decides on a start, and silence doesn't.
func TestPeersAtTheStart(t *testing.T) {
	for name, tt := range map[string]struct {
		offsets   map[string]time.Duration
		estimator clock.Estimator
		refused   string
		silent    bool
	}{
		"all agree":              {offsets: map[string]time.Duration{"a:1": 0, "b:1": 2 * second, "c:1": -3 * second}},
		"behind all":             {offsets: map[string]time.Duration{"a:1": 5 * second, "b:1": 6 * second, "c:1": 7 * second}, refused: "6s behind the peers' clocks, 3 of 3"},
		"ahead of all":           {offsets: map[string]time.Duration{"a:1": -time.Hour, "b:1": -time.Hour, "c:1": -time.Hour}, refused: "1h0m0s ahead of the peers' clocks"},
		"just within":            {offsets: map[string]time.Duration{"a:1": 5*second - time.Millisecond, "b:1": 5*second - time.Millisecond}},
		"one wrong":              {offsets: map[string]time.Duration{"a:1": 0, "b:1": time.Hour, "c:1": second}},
		"one wrong of two":       {offsets: map[string]time.Duration{"a:1": 0, "b:1": time.Hour}},
		"one wrong, by the mean": {offsets: map[string]time.Duration{"a:1": 0, "b:1": time.Hour, "c:1": second}, estimator: clock.Mean, refused: "20m0.333s behind"},
		"only one answers":       {offsets: map[string]time.Duration{"b:1": time.Hour}},
		"two of three answer":    {offsets: map[string]time.Duration{"b:1": time.Hour, "c:1": time.Hour}, refused: "2 of 3 peers answered"},
		"silence":                {silent: true},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			peers := []string{"a:1", "b:1", "c:1"}
			if name == "one wrong of two" {
				peers = slices.Collect(maps.Keys(tt.offsets))
			}
			model := d.amid(t, peers...)
			d.cfg.Prober, d.cfg.Estimator = &peersSay{offsets: tt.offsets}, tt.estimator
			w, err := worker.Start(t.Context(), d.cfg)
			if tt.refused != "" {
				require.ErrorIs(t, err, worker.ErrClockRefused)
				require.ErrorContains(t, err, tt.refused)
				require.Empty(t, d.cache.Saves())
				require.Empty(t, entriesOf(t, model), "a wrong clock is never recorded")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.silent, troubled(w, worker.ErrPeersSilent))
			samples, verdict, asked := w.Peers()
			require.Len(t, samples, verdict.Asked)
			require.Equal(t, d.clk.Millis(), asked)
		})
	}
}

// Without the registry those are asked that the local record names.
func TestRecordedPeersAreAskedWithoutTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model := d.amid(t, "a:1", "b:1")
		d.cfg.Prober = &peersSay{offsets: map[string]time.Duration{"a:1": 0}}
		w := d.start(t)
		require.Equal(t, []string{"a:1", "b:1"}, w.Record().Peers)
		d.stop(t, w)
		model.Down()
		d.join(model, registrytest.Options{})
		d.cfg.Prober = &peersSay{offsets: map[string]time.Duration{"a:1": time.Hour, "b:1": time.Hour}}
		_, err := worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrClockRefused)
		require.NotErrorIs(t, err, worker.ErrUnreachable)
	})
}

// A majority with another time makes a daemon unready, until it is none.
func TestPeersDisagreeWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model := d.amid(t, "a:1", "b:1", "c:1")
		peers := &peersSay{}
		d.cfg.Prober = peers
		say := func(a, b, c time.Duration) { peers.set(map[string]time.Duration{"a:1": a, "b:1": b, "c:1": c}) }
		say(0, 0, 0)
		w := d.start(t)
		run(t, w)
		becomes := func(ready bool) {
			t.Helper()
			d.eventually(t, 500*time.Millisecond, func() bool {
				among := len(liveNodes(t, model)) // the planted ones have no entry
				return (check(w) == nil) == ready && (among == 1) == ready
			})
		}
		becomes(true)
		say(time.Hour, time.Hour, time.Hour-second)
		becomes(false)
		require.ErrorIs(t, check(w), worker.ErrPeersDisagree)
		require.NoError(t, w.Await(t.Context(), d.clk.Millis()), "IDs are issued on")
		told := func(is ...error) {
			t.Helper()
			d.eventually(t, 500*time.Millisecond, func() bool {
				return len(w.Troubles()) == len(is) && !slices.ContainsFunc(is, func(is error) bool { return !troubled(w, is) })
			})
		}
		say(time.Hour, time.Hour, 0) // a tie
		becomes(true)
		told(worker.ErrPeersUndecided)
		say(time.Hour, time.Hour, time.Hour)
		becomes(false)
		told(worker.ErrPeersDisagree)
		say(time.Hour, second, 0) // one wrong peer is no majority
		becomes(true)
		told()
		require.Equal(t, worker.DefaultClockThreshold, w.Threshold())
		peers.set(nil)
		told(worker.ErrPeersSilent)
		require.NoError(t, check(w), "silence is no disagreement")
	})
}

const jump = time.Hour

// jumps is what two peers have after a jump, and whether the clock is right by that.
var jumps = map[string]struct {
	peers map[string]time.Duration
	goes  bool
}{
	"they jumped too": {map[string]time.Duration{"a:1": 0, "b:1": second}, true},
	"they did not":    {map[string]time.Duration{"a:1": -jump, "b:1": -jump}, false},
	"they are silent": {nil, false},
	"one of two did":  {map[string]time.Duration{"a:1": 0, "b:1": -jump}, false},
}

// So does one while a claim settles, and the piece is by the new time then.
func TestJumpWhileAStartSettlesIsConfirmedByThePeers(t *testing.T) {
	clocktest.Run(t, "", func(t *testing.T) {
		d := newDaemon()
		model := d.amid(t, "a:1", "b:1")
		d.cfg.Prober = &peersSay{offsets: map[string]time.Duration{"a:1": 0, "b:1": 0}}
		clocktest.Pass(2 * time.Minute) // the root is young no more
		d.settlesAs(func() { d.clk.Step(jump) })
		before := d.clk.Millis()
		require.Greater(t, d.start(t).Ceiling(), before.Add(jump))
		require.Contains(t, d.events.kinds(), worker.EventJumpConfirmed)
		require.GreaterOrEqual(t, entriesOf(t, model)[0].Limit, before.Add(jump+worker.YoungLease))
	})
}

// A jump goes on only where the peers have the new time.
func TestJumpIsConfirmedByThePeers(t *testing.T) {
	for name, tt := range jumps {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			model := d.amid(t, "a:1", "b:1")
			peers := &peersSay{offsets: map[string]time.Duration{"a:1": 0, "b:1": 0}}
			d.cfg.Prober = peers
			w := d.start(t)
			run(t, w)
			before := d.clk.Millis()
			peers.set(tt.peers)
			d.clk.Step(jump)
			err := w.Await(t.Context(), d.clk.Millis())
			if tt.goes {
				require.NoError(t, err)
				require.Greater(t, w.Ceiling(), d.clk.Millis())
				require.Contains(t, d.events.kinds(), worker.EventJumpConfirmed)
				return
			}
			require.ErrorIs(t, err, worker.ErrClockJumped)
			d.eventually(t, 100*time.Millisecond, func() bool { return len(liveNodes(t, model)) == 0 })
			require.Less(t, entriesOf(t, model)[0].Ceiling, before.Add(time.Minute))
			for _, r := range d.cache.Saves() {
				require.Less(t, r.Ceiling, before.Add(time.Minute))
			}
			d.clk.Step(-jump)
			d.eventually(t, second, func() bool { return w.Await(t.Context(), d.clk.Millis()) == nil && len(liveNodes(t, model)) == 1 })
		})
	}
}
