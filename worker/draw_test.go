package worker_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// crowd is a thousand peers: say tells what the i-th says of its clock in the n-th question of
// a round, 0 for those drawn, or that it is silent.
type crowd struct {
	size int
	mu   sync.Mutex
	say  func(i, n int) (offset time.Duration, answers bool) // mu protects
	// luck, where it isn't nil, is what a peer drawn says, whichever it is, and say what the
	// others do.
	luck   func() (offset time.Duration, answers bool) // mu protects
	rounds [][]string                                  // mu protects; the peers asked in each, in this order
	drawn  []int                                       // mu protects; how many at first
}

const thousand = 1024

func right(int, int) (time.Duration, bool) { return 0, true }

// thirdWrong is a third of the peers at off from us, the others at theirs.
func thirdWrong(off, others time.Duration) func(int, int) (time.Duration, bool) {
	return func(i, _ int) (time.Duration, bool) {
		if 3*i < thousand {
			return off, true
		}
		return others, true
	}
}

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
	n := 0
	if last := len(p.rounds) - 1; last >= 0 && len(p.rounds[last]) == clock.Drawn && len(addresses) == p.size-clock.Drawn {
		n = 1
		p.rounds[last] = append(p.rounds[last], addresses...)
	} else {
		p.rounds, p.drawn = append(p.rounds, addresses), append(p.drawn, len(addresses))
	}
	samples := make([]clock.Sample, 0, len(addresses))
	for _, a := range addresses {
		s := clock.Sample{Address: a, Owner: "owner of " + a}
		var i int
		if _, err := fmt.Sscanf(a, "peer%d:1", &i); err != nil {
			panic(err)
		}
		var answers bool
		if n == 0 && p.luck != nil {
			s.Offset, answers = p.luck()
		} else {
			s.Offset, answers = p.say(i, n)
		}
		if !answers {
			s.Err = context.DeadlineExceeded
		}
		samples = append(samples, s)
	}
	return samples
}

func (p *crowd) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// asked returns how many were asked in each round since the last call.
func (p *crowd) asked() (each []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, round := range p.rounds {
		each = append(each, len(round))
	}
	p.rounds, p.drawn = nil, nil
	return each
}

// whole counts the rounds in which all were asked; of the others each has to have asked
// exactly those drawn.
func (p *crowd) whole(t *testing.T) (whole, all int) {
	t.Helper()
	each := p.asked()
	for _, n := range each {
		if n == p.size {
			whole++
		} else {
			require.Equal(t, clock.Drawn, n)
		}
	}
	return whole, len(each)
}

// passRounds lets so many rounds pass, at least.
func passRounds(n int) { clocktest.Pass(time.Duration(n) * worker.DefaultPeerInterval) }

// The peers asked in a round of many, of few, and of one more than a few.
func TestPeersAskedInARound(t *testing.T) {
	for _, tt := range []struct{ peers, asked int }{{1, 1}, {23, 23}, {24, 24}, {25, 24}, {thousand, 24}, {3000, 24}} {
		clocktest.Run(t, fmt.Sprint(tt.peers), func(t *testing.T) {
			d := newDaemon()
			p := &crowd{size: tt.peers, say: right}
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
		luck      func() (time.Duration, bool)
		estimator clock.Estimator
	}{
		"all drawn are an hour ahead":            {luck: func() (time.Duration, bool) { return time.Hour, true }},
		"all drawn are behind":                   {luck: func() (time.Duration, bool) { return -worker.DefaultClockThreshold, true }},
		"those drawn are off to either side":     {luck: of(2, -time.Hour, time.Hour)},
		"one drawn is off, and the mean decides": {luck: of(clock.Drawn, time.Hour, 0), estimator: clock.Mean},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			d.cfg.Estimator = tt.estimator
			p := &crowd{size: thousand, say: right, luck: tt.luck}
			model := p.live(t, d)
			w := d.start(t)
			run(t, w)
			passRounds(20)
			whole, all := p.whole(t)
			require.Equal(t, all, whole, "everybody was asked each time")
			require.GreaterOrEqual(t, all, 20)
			require.Equal(t, clock.Agree, w.Vote())
			require.NoError(t, check(w))
			require.Equal(t, []string{d.cfg.Node}, liveNodes(t, model))
			require.Empty(t, w.Troubles())
		})
	}
}

// Nor does a lucky draw bring back one that all outvote. It starts, where only the
// peers drawn are asked, and is out with the first draw that isn't lucky.
func TestLuckyDraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		off := func(int, int) (time.Duration, bool) { return time.Hour, true }
		p := &crowd{size: thousand, say: off, luck: func() (time.Duration, bool) { return 0, true }}
		p.live(t, d)
		w := d.start(t)
		run(t, w)
		passRounds(3)
		require.NoError(t, check(w))
		p.set(func() { p.luck = nil })
		d.eventually(t, time.Second, func() bool { return w.Vote() == clock.Outvoted })
		p.set(func() { p.luck = func() (time.Duration, bool) { return 0, true } })
		passRounds(20)
		require.ErrorIs(t, check(w), worker.ErrPeersDisagree)
		require.True(t, troubled(w, worker.ErrPeersDisagree))
		p.set(func() { p.say = right })
		d.eventually(t, time.Second, func() bool { return check(w) == nil })
		p.asked()
		passRounds(3)
		whole, all := p.whole(t)
		require.Zero(t, whole, "and then a draw will do again")
		require.GreaterOrEqual(t, all, 3)
	})
}

// Among a thousand peers: a jump that a third of them made too is never confirmed, one
// that sets a clock right is, and a draw that is of one mind is enough.
func TestJumpAmongAThousand(t *testing.T) {
	const jump = time.Hour
	for name, tt := range map[string]struct {
		say          func(int, int) (time.Duration, bool) // after the jump
		luck         func() (time.Duration, bool)
		goes         bool
		never, whole bool // all are asked
	}{
		"all made it too":                   {say: right, goes: true, never: true},
		"nobody made it":                    {say: func(int, int) (time.Duration, bool) { return -jump, true }, never: true},
		"a third made it":                   {say: thirdWrong(0, -jump)},
		"two thirds did":                    {say: thirdWrong(-jump, 0), goes: true},
		"nobody made it but most of a draw": {say: func(int, int) (time.Duration, bool) { return -jump, true }, luck: of(3, -jump, 0), whole: true},
		"all made it but some of a draw":    {say: right, luck: of(3, -jump, 0), goes: true, whole: true},
		"nobody of a draw answers":          {say: right, luck: func() (time.Duration, bool) { return 0, false }, never: true},
	} {
		clocktest.Run(t, name, func(t *testing.T) {
			d := newDaemon()
			p := &crowd{size: thousand, say: right}
			p.live(t, d)
			d.cfg.PeerInterval = 1000 * time.Hour // reports alone ask
			w := d.start(t)
			run(t, w)
			before := d.clk.Millis()
			p.asked()
			p.set(func() { p.say, p.luck = tt.say, tt.luck })
			d.clk.Step(jump)
			if tt.goes {
				d.eventually(t, 100*time.Millisecond, func() bool { return w.Await(t.Context(), d.clk.Millis()) == nil })
				require.Less(t, d.clk.Millis(), before.Add(jump+time.Minute))
				require.Equal(t, 1, d.events.count(worker.EventJumpConfirmed))
			} else {
				for range 500 { // tries
					clocktest.Pass(500 * time.Millisecond)
					require.ErrorIs(t, w.Await(t.Context(), d.clk.Millis()), worker.ErrClockJumped)
				}
				require.Zero(t, d.events.count(worker.EventJumpConfirmed))
				for _, r := range d.cache.Saves() {
					require.Less(t, r.Ceiling, before.Add(time.Minute))
				}
			}
			whole, all := p.whole(t)
			require.Positive(t, all)
			if tt.never {
				require.Zero(t, whole)
			} else if tt.whole {
				require.Equal(t, all, whole)
			}
			t.Logf("all were asked in %d of %d tries", whole, all)
		})
	}
}

// of is what those drawn say where one in n says one thing, and the others say another.
func of(n int, one, others time.Duration) func() (time.Duration, bool) {
	i := 0
	return func() (time.Duration, bool) {
		if i++; i%n == 0 {
			return one, true
		}
		return others, true
	}
}
