package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scope is what a kind of fault hits.
type scope int

const (
	oneDaemon   scope = iota
	someDaemons       // one, or all
	zooKeeper
	database
)

// allDaemons is the daemon of a fault that hits all of them.
const allDaemons = -1

// fault is one thing that goes wrong.
type fault struct {
	kind
	daemon int           // 0.. ; allDaemons; of no weight where a server is hit
	begin  time.Duration // after the round began
	hold   time.Duration // until it ends
	// dice decide the rest, each 0 to 1: how far a clock is set, say.
	dice [3]float64
}

// String returns f as a line of the plan.
func (f fault) String() string {
	where := ""
	switch {
	case f.hits > someDaemons:
	case f.daemon == allDaemons:
		where = ", all daemons"
	default:
		where = ", leafd" + strconv.Itoa(f.daemon+1)
	}
	return fmt.Sprintf("%s%s (at %.1fs for %.1fs)", f.name, where, f.begin.Seconds(), f.hold.Seconds())
}

// planner deals rounds of faults. Two of one seed and mix deal the same.
type planner struct {
	rnd         *rand.Rand
	kinds, deck []kind
}

// newPlanner returns a planner. mix is "kind=weight;kind=weight"; "" stands for all kinds.
func newPlanner(seed uint64, mix string) (*planner, error) {
	p := &planner{rnd: newDice(seed)}
	weights := map[string]int{}
	for part := range strings.SplitSeq(mix, ";") {
		if part == "" {
			continue
		}
		name, weight, found := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(weight)
		if !found {
			n, err = 1, nil
		}
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%w: %q is no weight of %q", errUsage, weight, name)
		}
		weights[name] = n
	}
	for _, k := range kinds() {
		if n, found := weights[k.name]; found || mix == "" {
			if found {
				k.weight = n
			}
			delete(weights, k.name)
			p.kinds = append(p.kinds, k)
		}
	}
	for name := range weights {
		return nil, fmt.Errorf("%w: there is no fault %q", errUsage, name)
	}
	return p, nil
}

func newDice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x1eafd)) } //nolint:gosec // it guards nothing

// next deals a round: faults that overlap, of which no two hit the same daemon or server. After it all have ended.
func (p *planner) next() []fault {
	size := [...]int{1, 1, 1, 1, 1, 2, 2, 2, 3, 3}[p.rnd.IntN(10)]
	var round []fault
	for tries := 0; len(round) < size && tries < 12; tries++ {
		f := p.deal()
		if len(round) > 0 && (f.solo || slices.ContainsFunc(round, f.meets)) {
			p.deck = slices.Insert(p.deck, 0, f.kind) // its time comes
			continue
		}
		if len(round) > 0 {
			f.begin = time.Duration(p.rnd.IntN(200)) * 10 * time.Millisecond
		}
		if round = append(round, f); f.solo {
			break
		}
	}
	return round
}

// deal takes a kind off the deck; an empty deck is shuffled again, so that each kind has its turn.
func (p *planner) deal() fault {
	if len(p.deck) == 0 {
		for _, k := range p.kinds {
			p.deck = append(p.deck, slices.Repeat([]kind{k}, k.weight)...)
		}
		p.rnd.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	last := len(p.deck) - 1
	f := fault{kind: p.deck[last], daemon: p.rnd.IntN(daemons)}
	p.deck = p.deck[:last]
	f.hold = between(f.least, f.most, p.rnd.Float64()).Round(10 * time.Millisecond)
	for i := range f.dice {
		f.dice[i] = p.rnd.Float64()
	}
	if f.hits == someDaemons && p.rnd.IntN(3) == 0 {
		f.daemon = allDaemons
	}
	return f
}

// meets reports whether f and other hit the same daemon or server.
func (f fault) meets(other fault) bool {
	if f.hits > someDaemons || other.hits > someDaemons {
		return f.hits == other.hits
	}
	return f.daemon == other.daemon || f.daemon == allDaemons || other.daemon == allDaemons
}

// between returns a time that a die chooses.
func between(least, most time.Duration, die float64) time.Duration {
	return least + time.Duration(die*float64(most-least))
}
