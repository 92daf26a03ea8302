// Package limits knows what each key has used of its rate. It holds no lock while a request passes, nor
// allocates for a known key.
package limits

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of a Limit.
const (
	// MaxRate is the highest rate, per second.
	MaxRate = 10_000_000
	// MaxBurst is the largest burst.
	MaxBurst = 10_000_000
)

// Capacity is how many keys one Rates knows at once.
const Capacity = sets * ways

const (
	ways = 16
	sets = 8192
)

// fine is the number of units in a nanosecond. Debts are kept in these units, so that
// rounding costs less than a thousandth of the highest rate. 63 bits hold 18 years.
const fine = 16

// retired is the debt of an account that is no longer in the table.
const retired = math.MinInt64

// Limit is a rate and a burst, prepared for use. The zero value is no limit.
type Limit struct {
	each  int64 // the cost of one ID, as time at the rate
	burst int64 // the cost of a whole burst
}

// NewLimit returns the limit of rate a second, 1 to MaxRate, and of burst at once, 1 to
// MaxBurst. Values out of range are clamped.
func NewLimit(rate, burst int) Limit {
	rate, burst = min(max(rate, 1), MaxRate), min(max(burst, 1), MaxBurst)
	each := (int64(time.Second)*fine + int64(rate) - 1) / int64(rate)
	return Limit{each: each, burst: each * int64(burst)}
}

// On reports whether there is a limit.
func (l Limit) On() bool { return l.each > 0 }

// Burst returns how many IDs there are at once, after a pause.
func (l Limit) Burst() int { return int(l.burst / l.each) }

// Rates knows what each key has used of its limit. It keeps:
//
//  1. In any time T, a key takes at most rate*T and one burst. An account is the
//     time by which everything taken is paid for at the rate (GCRA, ITU-T I.371). It
//     only grows, by one compare-and-swap a request; a request that would move it
//     further ahead of now than a burst is refused. So no key is ever further than a
//     burst from its next ID, and what is larger than a burst never passes.
//  2. A refused request is charged nothing, and Charge returns how long to wait:
//     the same request passes then, if no other uses the key.
//  3. No two keys share an account: the key itself is compared, not its hash.
//  4. Memory is bounded to Capacity accounts, in sets of 16 by a hash that
//     clients can't predict. A full set evicts an account without debt, which is as
//     good as none; where all 16 have debts, it evicts the smallest and counts the
//     eviction: that key has its whole burst again. So a client that invents
//     millions of keys displaces invented keys, and not the busy one.
//  5. An account is charged only while it is in the table: it is flagged as retired before it is evicted, and
//     a request that finds the flag looks again.
//
// The caller passes a monotonic clock, so that steps of the wall clock don't matter.
// Rates is safe for concurrent use. Make one with NewRates.
type Rates struct {
	seed   maphash.Seed
	table  []set // immutable; as many as a power of two
	forgot atomic.Uint64
}

// set has the accounts of keys with hashes of the same low bits, filled from the front.
type set struct {
	// hints are bits of the keys' hashes, so that few keys have to be compared. A
	// reader misled by a stale one calls add, which locks.
	hints    [ways]atomic.Uint32
	mu       sync.Mutex // held only while an account is added or replaced
	accounts [ways]atomic.Pointer[account]
}

type account struct {
	key  string       // immutable
	paid atomic.Int64 // when everything is paid for, in units of fine; retired once evicted
}

// NewRates returns a Rates that knows no key. It takes 1.6 MB.
func NewRates() *Rates { return newRates(sets) }

func newRates(sets int) *Rates { return &Rates{seed: maphash.MakeSeed(), table: make([]set, sets)} }

// Forgot returns how many accounts with a debt were evicted for want of room.
func (r *Rates) Forgot() uint64 { return r.forgot.Load() }

// Charge charges n, 1 to limit.Burst, to the key, or returns how long to wait until it can; now
// is a monotonic clock. It doesn't retain key.
func (r *Rates) Charge(key []byte, n int, now time.Duration, limit Limit) (wait time.Duration, ok bool) {
	hash := maphash.Bytes(r.seed, key)
	s, hint := &r.table[hash&uint64(len(r.table)-1)], hintOf(hash) //nolint:gosec // a length
	at := int64(now) * fine
	for {
		a := s.find(key, hint)
		if a == nil {
			a = r.add(s, key, hint, at)
		}
		if owed, there := a.charge(int64(n)*limit.each, at, limit.burst); there {
			return time.Duration((owed + fine - 1) / fine), owed == 0
		}
	}
}

// charge adds cost to the account, or returns how much too early that is; there is false
// when the account was evicted.
func (a *account) charge(cost, now, burst int64) (early int64, there bool) {
	for {
		paid := a.paid.Load()
		if paid == retired {
			return 0, false
		}
		from := max(paid, now)
		if early := from + cost - burst - now; early > 0 {
			return early, true
		}
		if a.paid.CompareAndSwap(paid, from+cost) {
			return 0, true
		}
	}
}

// hintOf returns bits of a hash that don't select the set, and never 0.
func hintOf(hash uint64) uint32 { return uint32(hash>>32) | 1 }

// find returns the account of key; nil when it has none, or is just being added.
func (s *set) find(key []byte, hint uint32) *account {
	for i := range s.hints {
		switch s.hints[i].Load() {
		case hint:
			if a := s.accounts[i].Load(); a != nil && a.key == string(key) {
				return a
			}
		case 0:
			return nil
		}
	}
	return nil
}

// add adds an account for key to s, in place of another where s is full. It returns the
// existing one when another goroutine was faster.
func (r *Rates) add(s *set, key []byte, hint uint32, now int64) *account {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.find(key, hint); a != nil {
		return a
	}
	fresh := &account{key: string(key)}
	least, at := int64(math.MaxInt64), 0
	for i := range s.accounts {
		a := s.accounts[i].Load()
		if a == nil {
			s.put(i, fresh, hint)
			return fresh
		}
		if paid := a.paid.Load(); paid < least {
			least, at = paid, i
		}
	}
	if s.accounts[at].Load().paid.Swap(retired) > now {
		r.forgot.Add(1)
	}
	s.put(at, fresh, hint)
	return fresh
}

// put makes a the account at i. mu is held.
func (s *set) put(i int, a *account, hint uint32) {
	s.accounts[i].Store(a)
	s.hints[i].Store(hint)
}
