package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/clock"
)

// askAtStart compares the clock with the peers' before anything is written. It keeps:
//
//	worker.A1  A clock that the peers together put beyond the threshold is refused. A
//	    daemon that resumes goes on where one single peer answered: nobody knows which of
//	    the two clocks is wrong (clock.Verdict.Refuses).
//	worker.A2  Silence is a warning, never a refusal: a cluster has to start again after
//	    it was down as a whole.
func (w *Worker) askAtStart(ctx context.Context, me *self, found Lookup) error {
	if me.offline == nil {
		me.Peers = addressesOf(found.Peers)
	}
	if w.cfg.Prober == nil || len(me.Peers) == 0 {
		return nil
	}
	samples := w.probe(ctx, me.Peers)
	if ctx.Err() != nil {
		return fmt.Errorf("stopped while asking the peers for their clocks: %w", ctx.Err())
	}
	if verdict, off, said := w.judge(samples); verdict.Refuses(w.Threshold(), me.recorded && me.Cluster != "") { // worker.A1
		return fmt.Errorf("%w: it is %s, %s. Fix the clock (NTP); if the peers' are wrong, theirs", ErrClockRefused, off, said)
	}
	w.countVotes(samples) // worker.A2
	return nil
}

// Bounds of what peers cost. Whoever writes to the registry can name any number of them, at
// any address.
const (
	maxPeers     = 1024            // are asked, drawn by lot where there are more
	maxAddress   = 64              // bytes; an ip:port has 53 at most
	maxNamed     = 5               // are named by an error
	peersTimeout = 2 * time.Second // of the question who they are
)

func addressesOf(peers []Peer) []string {
	addresses := make([]string, 0, len(peers))
	for _, p := range peers {
		if len(p.Address) <= maxAddress {
			addresses = append(addresses, p.Address)
		}
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	if len(addresses) > maxPeers {
		rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] }) //nolint:gosec // whoever is asked, it is no secret
		addresses = addresses[:maxPeers]
	}
	return addresses
}

// judge returns what the samples say together, how far our clock is off by that, and who
// said what.
func (w *Worker) judge(samples []clock.Sample) (v clock.Verdict, off, said string) {
	v = clock.Estimate(samples, w.cfg.Estimator)
	way := "ahead of"
	if v.Offset > 0 {
		way = "behind"
	}
	off = fmt.Sprintf("%s %s the peers' clocks", v.Offset.Abs().Round(time.Millisecond), way)
	return v, off, fmt.Sprintf("%d of %d peers answered (%s); up to %s is allowed", v.Answered, v.Asked, offsets(samples), w.Threshold())
}

// offsets lists what the peers said.
func offsets(samples []clock.Sample) string {
	var said []string
	for _, s := range samples {
		if s.Err == nil && len(said) <= maxNamed {
			said = append(said, fmt.Sprintf("%s %+dms", s.Address, s.Offset.Milliseconds()))
		}
	}
	if len(said) > maxNamed {
		said = append(said[:maxNamed], "…")
	}
	return strings.Join(said, ", ")
}

// silence says why no peer answered; nil where one did, or there is none.
func silence(samples []clock.Sample) error {
	var errs []error
	for _, s := range samples {
		if s.Err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.Address, s.Err))
	}
	return errors.Join(errs[:min(len(errs), maxNamed)]...)
}

// watchPeers compares the clock with the peers' every PeerInterval until ctx is done.
func (w *Worker) watchPeers(ctx context.Context) {
	defer w.looking.Pause()
	for w.beat(ctx, &w.looking, w.cfg.PeerInterval) {
		w.looking.Pause() // a thousand silent peers take their time
		samples := w.askPeers(ctx)
		w.looking.Expect(w.cfg.Clock, stuckGrace)
		rival := w.errRival(ctx, w.Record(), w.began, samples)
		switch {
		case ctx.Err() != nil:
			return
		case rival != nil:
			_ = w.fence(rival) // Run returns it
		default:
			w.countVotes(samples)
		}
	}
}

// errRival returns an error where another life tells that it issues in the cluster and under
// the worker ID of me, whose life began to issue at since (0: not yet). That rests on no
// registry: it is what can still be seen where two have one worker ID all the same, as on two
// ZooKeepers with one cluster's data. It keeps:
//
//	worker.U5  A life that finds another one in its place ends: in the registry (confirm,
//	    ErrFenced), or by what a peer tells. Of two lives that tell each other one worker
//	    ID it is the one that began later, by what both tell of that; at the same time, the
//	    one with the greater owner. A life that does not issue yet begins last. So one of
//	    them goes on. No other rule relies on this.
//	worker.A5  One answer ends nothing: the peer is asked again at once, and has to say the
//	    same again. A life that was displaced, or whose lease is over, tells no worker ID.
//
// Nothing checks that the peer tells the truth. A forger, who answers at an address in the
// live set (ZooKeeper's word), or sits on the way to one, can keep the daemons that ask it
// from issuing snowflake IDs for as long as it goes on. It makes no ID repeat, and costs no
// worker ID and no data directory. Verified peers (--tls-client-ca) need a certificate.
func (w *Worker) errRival(ctx context.Context, me Record, since clock.Millis, samples []clock.Sample) error {
	for _, s := range samples {
		if !isRival(s, me, since) {
			continue
		}
		again := w.probe(ctx, []string{s.Address}) // worker.A5
		if len(again) == 1 && again[0].Owner == s.Owner && isRival(again[0], me, since) {
			return fmt.Errorf("the daemon at %s, owner %s, has issued as worker %d of the same cluster since %s", s.Address, s.Owner, me.WorkerID, s.Since)
		}
	}
	return nil
}

// isRival tells whether the peer has the worker ID of me and goes before it (worker.U5).
func isRival(s clock.Sample, me Record, since clock.Millis) bool {
	if s.Err != nil || s.Since == 0 || s.Owner == "" || s.Owner == me.Owner || me.Cluster == "" || s.Cluster != me.Cluster || s.WorkerID != me.WorkerID {
		return false
	}
	return since == 0 || s.Since < since || s.Since == since && s.Owner < me.Owner
}

// countVotes keeps what the peers said, and tells of each change in what follows from
// it. It keeps:
//
//	worker.A4  Outvoted by the peers' clocks (clock.E5), this daemon is not ready and not in
//	    the live set. Where they disagree and no majority tells who is wrong, it goes on,
//	    with an alarm: of two daemons neither leaves, of three the wrong one alone.
func (w *Worker) countVotes(samples []clock.Sample) {
	vote := clock.VoteOf(samples, w.Threshold())
	_, off, said := w.judge(samples)
	var disagree error
	if vote == clock.Outvoted {
		disagree = fmt.Errorf("%w: this clock is %s, %s", ErrPeersDisagree, off, said)
	}
	w.mu.Lock()
	before, silent, silentBefore := w.vote, silence(samples), silence(w.samples)
	w.vote, w.disagree, w.samples, w.asked = vote, disagree, samples, w.cfg.Clock.Read()
	w.mu.Unlock()
	if vote != before {
		w.notify(map[clock.Vote]Event{
			clock.Outvoted:  {Kind: EventPeersDisagree, Err: disagree},
			clock.Undecided: {Kind: EventPeersUndecided, Text: said},
			clock.Agree:     {Kind: EventPeersAgree},
		}[vote])
		w.ask() // the live set may have to change
	}
	switch {
	case silent != nil && silentBefore == nil:
		w.notify(Event{Kind: EventPeersSilent, Err: silent})
	case silent == nil && silentBefore != nil:
		w.notify(Event{Kind: EventPeersBack})
	}
}

// askPeers asks the peers for their clocks, and the registry who they are; when it
// doesn't say, those that it named last.
func (w *Worker) askPeers(ctx context.Context) []clock.Sample {
	bounded, cancel := context.WithTimeout(ctx, peersTimeout)
	peers, err := w.cfg.Registry.Peers(bounded)
	cancel()
	w.mu.Lock()
	if err == nil {
		w.record.Peers = addressesOf(peers)
	}
	addresses := w.record.Peers
	w.mu.Unlock()
	if len(addresses) == 0 {
		return nil
	}
	return w.probe(ctx, addresses)
}

// probe asks the addresses for their clocks, and leaves out what we said ourselves, which is
// no second opinion: another node may have our address in the registry, as after a change of
// name.
func (w *Worker) probe(ctx context.Context, addresses []string) []clock.Sample {
	return slices.DeleteFunc(w.cfg.Prober.Probe(ctx, addresses), func(s clock.Sample) bool { return s.Owner == w.cfg.Owner })
}

// confirmJump returns nil when more than half of the peers that answer have the time
// that our clock jumped to, and else ErrClockJumped (worker.C3). It takes as long as the
// peers do: nothing is issued beyond the ceiling meanwhile.
func (w *Worker) confirmJump(ctx context.Context, step clock.Step) error {
	jumped := fmt.Errorf("%w by %s between two reports (%s allowed)", ErrClockJumped, step.By.Round(time.Millisecond), w.cfg.MaxForwardStep)
	if w.cfg.Prober == nil {
		return fmt.Errorf("%w; fix the clock, or restart if it is right now", jumped)
	}
	w.reporting.Pause() // as in watchPeers
	samples := w.askPeers(ctx)
	w.reporting.Expect(w.cfg.Clock, w.cfg.ReportInterval+stuckGrace)
	answered, agree := clock.Estimate(samples, w.cfg.Estimator).Answered, 0
	for _, s := range samples {
		if s.Err == nil && s.Offset.Abs() < w.Threshold() {
			agree++
		}
	}
	switch {
	case answered == 0:
		return fmt.Errorf("%w, and no peer says what time it is; fix the clock, or restart if it is right now", jumped)
	case 2*agree <= answered: // a tie confirms nothing
		return fmt.Errorf("%w, and only %d of %d peers have the same time (%s); fix the clock", jumped, agree, answered, offsets(samples))
	}
	w.notify(Event{Kind: EventJumpConfirmed, Text: fmt.Sprintf("by %s; %d peers have the same time (%s)", step.By.Round(time.Millisecond), agree, offsets(samples))})
	return nil
}

// Threshold is how far the clock may be off its peers'.
func (w *Worker) Threshold() time.Duration { return time.Duration(w.threshold.Load()) }

// PrepareThreshold checks d, which is to be more than 0, and returns what makes it
// the Threshold from the next look at the peers on.
func (w *Worker) PrepareThreshold(d time.Duration) (take func(), err error) {
	if d <= 0 {
		return nil, fmt.Errorf("threshold %s: want more than 0", d)
	}
	return func() { w.threshold.Store(int64(d)) }, nil
}

// Peers returns what the peers said of their clocks when they were last asked, what
// that amounts to, and when that was, 0 for never.
func (w *Worker) Peers() ([]clock.Sample, clock.Verdict, clock.Millis) {
	w.mu.Lock()
	samples, asked := slices.Clone(w.samples), w.asked
	w.mu.Unlock()
	return samples, clock.Estimate(samples, w.cfg.Estimator), asked.Wall()
}

// Vote returns where our clock stood among the peers' when they were last asked.
func (w *Worker) Vote() clock.Vote {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.vote
}
