package clock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Drawn is how many peers are asked for their clocks in a round; all of them where there are
// no more.
const Drawn = 24

// maxNamed is how many peers a text names.
const maxNamed = 5

// Prober asks peers for their clocks.
type Prober interface {
	// Probe asks all addresses at once, a second or so each, and returns one
	// sample each in the order given.
	Probe(ctx context.Context, addresses []string) []Sample
}

// Panel asks peers for their clocks, and judges ours by what they say.
type Panel struct {
	Prober    Prober
	Owner     string // of our life: what it says itself is no second opinion
	Estimator Estimator
	Threshold time.Duration // how far our clock may be off
}

// Ask asks the peers at addresses. It keeps:
//
//  1. A round costs Drawn requests, however many peers there are: so many are drawn
//     at random, each time others.
//  2. A draw, which may be unlucky, decides nothing but that all is well where it
//     was (AllWell), or that a jump is not confirmed yet. Where sure doesn't take what
//     those drawn said, the others are asked in the same round, and what all of them
//     said counts.
func (p Panel) Ask(ctx context.Context, addresses []string, sure func(drawn []Sample) bool) []Sample {
	addresses = slices.Clone(addresses)
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] }) //nolint:gosec // which are asked is no secret
	n := min(len(addresses), Drawn)
	samples := p.Probe(ctx, addresses[:n])
	if n < len(addresses) && ctx.Err() == nil && !sure(samples) {
		samples = append(samples, p.Probe(ctx, addresses[n:])...)
	}
	return samples
}

// Probe asks all of the addresses, and leaves out what we said ourselves: another node may have
// our address in the registry, as after a change of name.
func (p Panel) Probe(ctx context.Context, addresses []string) []Sample {
	if len(addresses) == 0 {
		return nil
	}
	return slices.DeleteFunc(p.Prober.Probe(ctx, addresses), func(s Sample) bool { return s.Owner == p.Owner })
}

// AllWell reports whether the peers drawn have our time.
func (p Panel) AllWell(drawn []Sample) bool {
	return VoteOf(drawn, p.Threshold) == Agree && !Estimate(drawn, p.Estimator).Beyond(p.Threshold)
}

// Judge returns what the samples say together, and that in words.
func (p Panel) Judge(samples []Sample) (v Verdict, said string) {
	v = Estimate(samples, p.Estimator)
	way := "ahead of"
	if v.Offset > 0 {
		way = "behind"
	}
	return v, fmt.Sprintf("%s %s the peers' clocks, %d of %d peers answered (%s); up to %s is allowed",
		v.Offset.Abs().Round(time.Millisecond), way, v.Answered, v.Asked, Offsets(samples), p.Threshold)
}

// Agreeing counts the samples with a clock that has our time, and those that have a clock.
func (p Panel) Agreeing(samples []Sample) (agree, answered int) {
	for _, offset := range offsetsOf(samples) {
		if answered++; offset.Abs() < p.Threshold {
			agree++
		}
	}
	return agree, answered
}

// Offsets lists what the first peers said.
func Offsets(samples []Sample) string {
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

// Silence returns the errors of the peers, of the first few, if none of them answered; nil if one
// did, or there is none.
func Silence(samples []Sample) error {
	var errs []error
	for _, s := range samples {
		if s.Err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", s.Address, s.Err))
	}
	return errors.Join(errs[:min(len(errs), maxNamed)]...)
}
