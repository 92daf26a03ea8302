package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
)

// Bounds of what peers cost. Any process that writes to the registry can name any number of
// them, at any address.
const (
	maxPeers     = 1024            // are known
	maxAddress   = 64              // bytes; an ip:port has 53 at most
	peersTimeout = 2 * time.Second // of the query for the list of peers
)

// askAtStart compares the clock with those of the peers at addresses before anything is
// written. It keeps:
//
//  1. A clock that the peers together put beyond the threshold is refused, where at
//     least half of them answer. A daemon that resumes, since it has had a worker ID of the
//     cluster, goes on where one single peer answered: it is unknown which of the two
//     clocks is wrong (clock.Verdict.Refuses).
//  2. Silence is a warning, never a refusal: a cluster has to start again after
//     it was down as a whole.
//  3. A clock ahead of what the boot-time clock allows is refused unless more than half of the
//     peers that answer have its time; where none does it goes on with an alarm, until one
//     has answered (boot-time-clock).
func (w *Worker) askAtStart(ctx context.Context, r Record, addresses []string) error {
	var samples []clock.Sample
	if w.cfg.Prober != nil && len(addresses) > 0 {
		samples = w.panel.Ask(ctx, addresses, w.allWell)
		if ctx.Err() != nil {
			return fmt.Errorf("stopped while asking the peers for their clocks: %w", ctx.Err())
		}
		if verdict, said := w.panel.Judge(samples); verdict.Refuses(w.cfg.Threshold, r.Cluster != "") {
			return fmt.Errorf("%w: it is %s. Fix the clock (NTP); if the peers' are wrong, theirs", ErrClockRefused, said)
		}
		w.countVotes(samples)
	}
	now := w.cfg.Clock.Read()
	by := now.Booted().Sub(r.Booted)
	if r.BootID == "" || r.BootID != w.cfg.BootID || by <= w.cfg.MaxForwardStep {
		return nil
	}
	ahead := fmt.Errorf("it says %s, which is %s ahead of what the machine's boot-time clock allows since worker %d reported last", now.Wall(), by, r.WorkerID)
	switch agree, answered := w.panel.Agreeing(samples); {
	case answered == 0:
		w.mu.Lock()
		w.unproven = fmt.Errorf("%w, and no peer says what time it is", ahead)
		w.mu.Unlock()
	case 2*agree <= answered:
		return fmt.Errorf("%w: %w, and only %d of %d peers have the same time (%s). Fix the clock (NTP)", ErrClockRefused, ahead, agree, answered, clock.Offsets(samples))
	}
	return nil
}

// addresses returns where the registry says that peers are to be asked, each address once; where it
// doesn't say, those known.
func (w *Worker) addresses(ctx context.Context, known []string) []string {
	ctx, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	peers, err := w.cfg.Registry.Peers(ctx)
	if err != nil {
		return known
	}
	var addresses []string
	for _, p := range peers {
		if len(p.Address) <= maxAddress {
			addresses = append(addresses, p.Address)
		}
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	return addresses[:min(len(addresses), maxPeers)]
}

// allWell reports whether the peers drawn have our time, and that those asked before had it too:
// a clock that was outvoted by all is not right because a draw says so.
func (w *Worker) allWell(drawn []clock.Sample) bool {
	return w.Vote() == clock.Agree && w.panel.AllWell(drawn)
}

// watchPeers compares the clock with the peers' every PeerInterval, or up to a quarter of that
// sooner, until ctx is done: daemons that started together don't ask together.
func (w *Worker) watchPeers(ctx context.Context) {
	for w.cfg.Clock.Sleep(ctx, w.cfg.PeerInterval-rand.N(w.cfg.PeerInterval/4+1)) == nil { //nolint:gosec // no secret
		samples := w.panel.Ask(ctx, w.peerAddresses(ctx), w.allWell)
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

// errRival returns an error if another life answers that it issues in the cluster and under the worker ID of
// me; our life began to issue at since (0: not yet). The check rests on no registry: it is what can still be
// seen where two have one worker ID all the same, as on two ZooKeepers with one cluster's data. It keeps:
//
//  1. A life that finds another one in its place ends: in the registry (confirm, ErrFenced), or by what a
//     peer answers. Of two lives that answer each other with one worker ID it is the one that began later, by
//     when each says that it began; at the same time, the one with the greater owner. A life that does not
//     issue yet begins last. So one of them goes on. No other rule relies on this.
//  2. One answer ends nothing: the peer is asked again at once, and has to say the
//     same again. A life that was displaced, or has outlived its lease, tells no worker ID.
//
// Nothing checks that the peer tells the truth. A forger that answers at an address in the
// live set (ZooKeeper's word), or sits on the way to one, can keep the daemons that ask it
// from issuing snowflake IDs for as long as it goes on. It makes no ID repeat, and costs no
// worker ID and no data directory. Verified peers (--tls-client-ca) need a certificate.
func (w *Worker) errRival(ctx context.Context, me Record, since clock.Millis, samples []clock.Sample) error {
	for _, s := range samples {
		if !isRival(s, me, since) {
			continue
		}
		again := w.panel.Probe(ctx, []string{s.Address})
		if len(again) == 1 && again[0].Owner == s.Owner && isRival(again[0], me, since) {
			return fmt.Errorf("the daemon at %s, owner %s, has issued as worker %d of the same cluster since %s", s.Address, s.Owner, me.WorkerID, s.Since)
		}
	}
	return nil
}

// isRival reports whether the peer has the worker ID of me and goes before it.
func isRival(s clock.Sample, me Record, since clock.Millis) bool {
	if s.Err != nil || s.Since == 0 || s.Owner == "" || s.Owner == me.Owner || me.Cluster == "" || s.Cluster != me.Cluster || s.WorkerID != me.WorkerID {
		return false
	}
	return since == 0 || s.Since < since || s.Since == since && s.Owner < me.Owner
}

// countVotes keeps what the peers said, and what follows from it. It keeps:
//
// Outvoted by the peers' clocks, of which at least half answer, this
// daemon is not ready and not in the live set. Where they disagree and no majority
// tells which is wrong, it goes on, with an alarm: of two daemons neither leaves, of
// three the wrong one alone.
func (w *Worker) countVotes(samples []clock.Sample) {
	vote := clock.VoteOf(samples, w.cfg.Threshold)
	w.mu.Lock()
	before := w.vote
	w.vote, w.samples, w.asked = vote, samples, w.cfg.Clock.Read()
	if slices.ContainsFunc(samples, func(s clock.Sample) bool { return s.Err == nil }) {
		w.unproven = nil
	}
	w.mu.Unlock()
	if vote != before {
		w.ask() // the live set may have to change
	}
}

// peerAddresses returns where the peers are, and has the record remember it.
func (w *Worker) peerAddresses(ctx context.Context) []string {
	addresses := w.addresses(ctx, w.Record().Peers)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.Peers = addresses
	return addresses
}

// confirmJump returns nil when all peers drawn that answer, or more than half of all, have the
// time that our clock jumped to, and else ErrClockJumped: too few of those drawn are
// enough to refuse, for the next report draws again. It takes as long as the peers do: nothing
// is issued beyond the ceiling meanwhile.
func (w *Worker) confirmJump(ctx context.Context, step clock.Step) error {
	jumped := fmt.Errorf("%w by %s (%s allowed)", ErrClockJumped, step.By.Round(time.Millisecond), w.cfg.MaxForwardStep)
	if w.cfg.Prober == nil {
		return fmt.Errorf("%w; fix the clock, or restart if it is right now", jumped)
	}
	samples := w.panel.Ask(ctx, w.peerAddresses(ctx), func(drawn []clock.Sample) bool {
		agree, answered := w.panel.Agreeing(drawn)
		return 2*agree <= answered || agree == answered
	})
	agree, answered := w.panel.Agreeing(samples)
	switch {
	case answered == 0:
		return fmt.Errorf("%w, and no peer says what time it is; fix the clock, or restart if it is right now", jumped)
	case 2*agree <= answered: // a tie confirms nothing
		return fmt.Errorf("%w, and only %d of %d peers have the same time (%s); fix the clock", jumped, agree, answered, clock.Offsets(samples))
	}
	w.notify(Event{Kind: EventJumpConfirmed, Text: fmt.Sprintf("by %s; %d peers have the same time (%s)", step.By.Round(time.Millisecond), agree, clock.Offsets(samples))})
	return nil
}

// Threshold returns how far the clock may be off its peers'.
func (w *Worker) Threshold() time.Duration { return w.cfg.Threshold }

// Peers returns the peers' samples of when they were last asked, what they say together, and when that was, 0
// for never.
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
