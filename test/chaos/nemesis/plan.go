package nemesis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AllDaemons is the Daemon of a fault that befalls all of them.
const AllDaemons = -1

// Fault is one thing that goes wrong.
type Fault struct {
	Kind   Kind
	Daemon int           // 0.. ; AllDaemons; 0 where the kind befalls a server
	Begin  time.Duration // after the round began
	Hold   time.Duration // until it ends
	// Dice decide the rest, each 0 to 1: how far a clock is stepped, say.
	Dice [4]float64
}

// String is f in a line of the plan.
func (f Fault) String() string {
	where := ""
	if f.Daemon == AllDaemons {
		where = ", all daemons"
	} else if slices.ContainsFunc(traits(), func(t trait) bool { return t.kind == f.Kind && t.scope != sharedServer }) {
		where = ", leafd" + strconv.Itoa(f.Daemon+1)
	}
	return fmt.Sprintf("%s%s (at %.1fs for %.1fs)", f.Kind, where, f.Begin.Seconds(), f.Hold.Seconds())
}

// Round is faults that overlap. After it all have ended.
type Round []Fault

// String is r in a line of the plan.
func (r Round) String() string {
	var parts []string
	for _, f := range r {
		parts = append(parts, f.String())
	}
	return strings.Join(parts, " + ")
}

// Planner deals rounds. Two of one seed, mix and number of daemons deal the same.
type Planner struct {
	rnd     *rand.Rand
	daemons int
	traits  []trait
	deck    []trait
	short   bool
}

// New returns a Planner for so many daemons. mix has the weights of the kinds; nil
// for the usual ones. A short run holds no fault for longer than shortHold, but
// those that are about a wait.
func New(seed uint64, daemons int, mix map[Kind]int, short bool) (*Planner, error) {
	p := &Planner{rnd: rand.New(rand.NewPCG(seed, 0x1eafd)), daemons: daemons, short: short} //nolint:gosec // a plan is to be foreseeable
	for kind := range mix {
		if !slices.Contains(Kinds(), kind) {
			return nil, fmt.Errorf("nemesis: there is no fault %q; there are: %q", kind, Kinds())
		}
	}
	for _, t := range traits() {
		if mix != nil {
			t.weight = mix[t.kind]
		}
		if t.weight > 0 {
			p.traits = append(p.traits, t)
		}
	}
	if len(p.traits) == 0 {
		return nil, fmt.Errorf("nemesis: no fault has a weight")
	}
	return p, nil
}

// shortHold bounds the faults of short runs, but those that are about a wait. One
// that is there for as long as longWait is as well there for less.
const (
	shortHold = 5 * time.Second
	longWait  = 30 * time.Second
)

// ParseMix reads "kind=weight,kind=weight".
func ParseMix(text string) (map[Kind]int, error) {
	if text == "" {
		return nil, nil
	}
	mix := map[Kind]int{}
	for part := range strings.SplitSeq(text, ";") {
		kind, weight, ok := strings.Cut(strings.TrimSpace(part), "=")
		n := 1
		if ok {
			var err error
			if n, err = strconv.Atoi(weight); err != nil || n < 0 {
				return nil, fmt.Errorf("nemesis: %q is no weight of %q", weight, kind)
			}
		}
		mix[Kind(kind)] = n
	}
	return mix, nil
}

// Next deals the next round.
func (p *Planner) Next() Round {
	size := 1
	switch n := p.rnd.IntN(10); {
	case n >= 8:
		size = 3
	case n >= 5:
		size = 2
	}
	var round Round
	var taken []string
	for tries := 0; len(round) < size && tries < 12; tries++ {
		t := p.deal()
		f := p.fault(t, len(round) > 0)
		claims := t.claims(f, p.daemons)
		if t.solo && len(round) > 0 || meet(taken, claims) {
			p.deck = slices.Insert(p.deck, 0, t) // its time comes
			continue
		}
		taken = append(taken, claims...)
		round = append(round, f)
		if t.solo {
			break
		}
	}
	return round
}

// deal takes a card off the deck; a spent deck is shuffled again, so that each kind
// has its turn.
func (p *Planner) deal() trait {
	if len(p.deck) == 0 {
		for _, t := range p.traits {
			for range t.weight {
				p.deck = append(p.deck, t)
			}
		}
		p.rnd.Shuffle(len(p.deck), func(i, j int) { p.deck[i], p.deck[j] = p.deck[j], p.deck[i] })
	}
	t := p.deck[len(p.deck)-1]
	p.deck = p.deck[:len(p.deck)-1]
	return t
}

func (p *Planner) fault(t trait, later bool) Fault {
	f := Fault{Kind: t.kind, Hold: t.least}
	if t.most > t.least {
		f.Hold += time.Duration(p.rnd.Int64N(int64(t.most - t.least)))
	}
	if p.short && t.least < longWait {
		f.Hold = min(f.Hold, max(shortHold, t.least))
	} else if p.short && !t.solo {
		f.Hold = shortHold
	}
	f.Hold = f.Hold.Round(10 * time.Millisecond)
	if later {
		f.Begin = time.Duration(p.rnd.IntN(200)) * 10 * time.Millisecond
	}
	for i := range f.Dice {
		f.Dice[i] = p.rnd.Float64()
	}
	switch t.scope {
	case oneDaemon:
		f.Daemon = p.rnd.IntN(p.daemons)
	case someDaemons:
		if f.Daemon = p.rnd.IntN(p.daemons); p.rnd.IntN(3) == 0 {
			f.Daemon = AllDaemons
		}
	case sharedServer:
	}
	return f
}
