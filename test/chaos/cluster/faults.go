package cluster

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leafd/leafd/test/chaos/history"
	"github.com/leafd/leafd/test/chaos/nemesis"
)

func newDice(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) } //nolint:gosec // loads, guards nothing

// undo ends a fault; nil where it ended by itself.
type undo func() error

// fault is one that was begun.
type fault struct {
	nemesis.Fault
	number int
	undo   undo
}

// Torment carries out one round: its faults begin and end in their turn, one
// step at a time, and then every daemon has to serve again.
func (c *Cluster) Torment(round nemesis.Round) error {
	type event struct {
		at    time.Duration
		index int
		ends  bool
	}
	var events []event
	for i, f := range round {
		events = append(events, event{f.Begin, i, false}, event{f.Begin + f.Hold, i, true})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	begun := make([]*fault, len(round))
	start := time.Now()
	var last int
	for _, e := range events {
		if err := c.sleep(e.at - time.Since(start)); err != nil {
			return err
		}
		f := round[e.index]
		if !e.ends {
			b, err := c.begin(f)
			if err != nil {
				return err
			}
			begun[e.index], last = b, b.number
			continue
		}
		if b := begun[e.index]; b.undo != nil {
			if err := b.undo(); err != nil {
				return fmt.Errorf("cluster: ending %s: %w", f.Kind, err)
			}
		}
	}
	if err := c.Serving(last); err != nil {
		return err
	}
	for _, b := range begun {
		c.record(&history.Record{Kind: history.KindEnded, At: c.now(), Fault: b.number})
	}
	return c.sleep(calm)
}

// calm is the time between two rounds: what nothing goes wrong in is measured too.
const calm = 500 * time.Millisecond

// begin begins a fault.
func (c *Cluster) begin(f nemesis.Fault) (*fault, error) {
	c.mu.Lock()
	c.faults++
	b := &fault{Fault: f, number: c.faults}
	c.mu.Unlock()
	targets := c.targets(f)
	c.record(&history.Record{Kind: history.KindBegin, At: c.now(), Fault: b.number, Text: string(f.Kind), Targets: targets})
	c.say("fault %d: %s %v for %s", b.number, f.Kind, targets, f.Hold)
	do := c.deeds()[f.Kind]
	if do == nil {
		return nil, fmt.Errorf("cluster: no function does %q", f.Kind)
	}
	var err error
	if b.undo, err = do(f); err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", f.Kind, err)
	}
	return b, nil
}

// targets names the daemons that f befalls; none where it befalls what all need.
func (c *Cluster) targets(f nemesis.Fault) []string {
	if !nemesis.OfDaemons(f.Kind) {
		return nil
	}
	var names []string
	for _, s := range c.of(f) {
		names = append(names, s.name)
	}
	return names
}

// of returns the daemons that f befalls.
func (c *Cluster) of(f nemesis.Fault) []*slot {
	if f.Daemon == nemesis.AllDaemons {
		return c.slots
	}
	return c.slots[f.Daemon : f.Daemon+1]
}

// deed begins a fault and returns what ends it.
type deed func(f nemesis.Fault) (undo, error)

// deeds is how each kind is done.
func (c *Cluster) deeds() map[nemesis.Kind]deed {
	return map[nemesis.Kind]deed{
		nemesis.Kill:            c.killed,
		nemesis.Stop:            c.stopped,
		nemesis.Storm:           c.storm,
		nemesis.Freeze:          c.frozen,
		nemesis.SessionExpiry:   c.frozen,
		nemesis.Rollback:        c.rolledBack,
		nemesis.RollbackStart:   c.rolledBackAtStart,
		nemesis.WrongStart:      c.wrongStart,
		nemesis.ClockBack:       c.clockBack,
		nemesis.ClockAhead:      c.clockAhead,
		nemesis.ClockJump:       c.clockJump,
		nemesis.ClockDrift:      c.clockDrift,
		nemesis.DirectoryLost:   c.directoryLost,
		nemesis.DirectoryCopied: c.elsewhere(undisturbed, always),
		nemesis.DirectoryCloned: c.directoryCloned,
		nemesis.Elsewhere:       c.elsewhere(undisturbed, never),
		nemesis.FrozenElsewhere: c.elsewhere(c.frozen, atTimes),
		nemesis.CutElsewhere:    c.elsewhere(c.onRegistry(cutOff), atTimes),
		nemesis.DoubleStart:     c.doubleStart,
		nemesis.DiskFull:        c.diskFull,
		nemesis.Release:         c.released,
		nemesis.ReleaseLive:     c.releasedLive,
		nemesis.HandedOver:      c.handedOver,
		nemesis.Outlived:        c.outlived(c.onRegistry(cutOff)),
		nemesis.StoodOutlived:   c.outlived(c.stood),
		nemesis.Stood:           c.stood,
		nemesis.Settings:        c.settingsChanged,
		nemesis.RecordRestored:  c.restoredRecord,
		nemesis.EntryRemoved:    c.entryRemoved,
		nemesis.ClaimJump:       c.claimJump,
		nemesis.Unwritable:      c.unwritable,

		nemesis.HostCut:         c.cutHost(true, true),
		nemesis.HostDeaf:        c.cutHost(true, false),
		nemesis.HostMute:        c.cutHost(false, true),
		nemesis.ZooKeeperCut:    c.onZooKeeper(cutOff),
		nemesis.ZooKeeperSilent: c.onZooKeeper(silent),
		nemesis.ZooKeeperDeaf:   c.onZooKeeper(deaf),
		nemesis.ZooKeeperSlow:   c.onZooKeeper(slow),
		nemesis.DatabaseCut:     c.onDatabase(cutOff),
		nemesis.DatabaseSilent:  c.onDatabase(silent),
		nemesis.DatabaseSlow:    c.onDatabase(slow),
		nemesis.PeersCut:        c.onPeers(cutOff),

		nemesis.LeaderKilled:    c.serverKilled(true),
		nemesis.FollowerKilled:  c.serverKilled(false),
		nemesis.QuorumKilled:    c.serversKilled(2),
		nemesis.EnsembleKilled:  c.serversKilled(3),
		nemesis.LeaderFrozen:    c.serverFrozen(true),
		nemesis.FollowerFrozen:  c.serverFrozen(false),
		nemesis.Emptied:         c.emptied,
		nemesis.EmptiedNewcomer: c.emptiedNewcomer,
		nemesis.EmptiedLong:     c.emptiedLongSessions,
		nemesis.ForeverRemoved:  c.foreverRemoved,
		nemesis.SetBack:         c.setBack,
		nemesis.SetBackNewcomer: c.setBackNewcomer,
		nemesis.SetBackReplaced: c.setBackReplaced,
		nemesis.Recovered:       c.recovered,
		nemesis.RecoveredTaken:  c.recoveredTaken,
		nemesis.DatabaseKilled:  c.databaseKilled,
		nemesis.DatabaseFrozen:  c.databaseFrozen,
		nemesis.DatabaseLocked:  c.databaseLocked,
		nemesis.DatabaseSetBack: c.databaseSetBack,
		nemesis.CommitsLost:     c.commitsLost,
		nemesis.UnguardedLost:   c.unguardedLost,
		nemesis.TagDeleted:      c.tagDeleted,
	}
}
