// Package nemesis decides what goes wrong, and when, from a seed alone. It does
// none of it: package cluster does.
package nemesis

import (
	"slices"
	"strconv"
	"time"
)

// Kind is a way in which something goes wrong.
type Kind string

// What befalls a daemon.
const (
	Kill            Kind = "kill -9"
	Stop            Kind = "clean stop"
	Storm           Kind = "restart storm"
	Freeze          Kind = "frozen"
	SessionExpiry   Kind = "session expired" // frozen for longer than its session
	Rollback        Kind = "kill -9, clock back, restart"
	RollbackStart   Kind = "clock back at the end of a start"
	WrongStart      Kind = "restart with a wrong clock"
	ClockBack       Kind = "clock back"
	ClockAhead      Kind = "clock ahead"
	ClockJump       Kind = "clock jumps"
	ClockDrift      Kind = "clock drifts"
	DirectoryLost   Kind = "data directory lost"
	DirectoryCopied Kind = "data directory copied, same name"
	DirectoryCloned Kind = "data directory copied, other name"
	Elsewhere       Kind = "same name started elsewhere"
	FrozenElsewhere Kind = "frozen, started elsewhere"
	CutElsewhere    Kind = "cut off from ZooKeeper and peers, started elsewhere"
	DoubleStart     Kind = "started twice"
	DiskFull        Kind = "disk full"
	Release         Kind = "worker released"
	ReleaseLive     Kind = "worker released by force while it runs"
	HandedOver      Kind = "given back at a stop, taken by a clock that is set back"
	Outlived        Kind = "cut off from ZooKeeper beyond its limit, replaced"
	StoodOutlived   Kind = "all clocks stopped beyond its limit, replaced"
	Stood           Kind = "all clocks stopped"
	Settings        Kind = "settings changed for a life"
	RecordRestored  Kind = "older record put back, clock back"
	EntryRemoved    Kind = "entry removed while it runs"
	ClaimJump       Kind = "data directory lost, clock jumps while its claim settles"
	Unwritable      Kind = "record can't be written, kill -9, clock back"
)

// What befalls the network between a daemon, or all of them, and others.
const (
	HostCut         Kind = "cut off from all" // clients too
	HostDeaf        Kind = "hears nothing"
	HostMute        Kind = "heard by none"
	ZooKeeperCut    Kind = "cut off from ZooKeeper"
	ZooKeeperSilent Kind = "ZooKeeper's packets lost"
	ZooKeeperDeaf   Kind = "ZooKeeper's answers lost"
	ZooKeeperSlow   Kind = "ZooKeeper slow"
	DatabaseCut     Kind = "cut off from MariaDB"
	DatabaseSilent  Kind = "MariaDB's packets lost"
	DatabaseSlow    Kind = "MariaDB slow"
	PeersCut        Kind = "cut off from peers"
)

// What befalls the servers.
const (
	LeaderKilled    Kind = "ZooKeeper's leader killed"
	FollowerKilled  Kind = "ZooKeeper follower killed"
	QuorumKilled    Kind = "ZooKeeper's quorum killed"
	LeaderFrozen    Kind = "ZooKeeper's leader frozen"
	FollowerFrozen  Kind = "ZooKeeper follower frozen"
	EnsembleKilled  Kind = "ZooKeeper killed whole"
	Emptied         Kind = "ZooKeeper emptied"
	EmptiedNewcomer Kind = "ZooKeeper emptied, a new daemon joins"
	EmptiedLong     Kind = "ZooKeeper emptied under long sessions, a new daemon joins"
	ForeverRemoved  Kind = "leaf_forever removed"
	SetBack         Kind = "ZooKeeper set back to an earlier state"
	SetBackNewcomer Kind = "ZooKeeper set back, a new daemon joins"
	SetBackReplaced Kind = "cut off beyond its limit, replaced, ZooKeeper set back"
	Recovered       Kind = "ZooKeeper restored from a backup, recovered, a new daemon joins"
	RecoveredTaken  Kind = "given back at a stop, taken, ZooKeeper restored and recovered, started again"
	DatabaseKilled  Kind = "MariaDB killed"
	DatabaseFrozen  Kind = "MariaDB frozen"
	DatabaseLocked  Kind = "segment table locked"
	DatabaseSetBack Kind = "max_id set back"
	CommitsLost     Kind = "MariaDB loses its last commits"
	UnguardedLost   Kind = "all cut off from ZooKeeper, back, and MariaDB loses its last commits"
	TagDeleted      Kind = "tag deleted and made again"
)

// scope is what a kind befalls.
type scope int

const (
	oneDaemon    scope = iota
	someDaemons        // one, or all
	sharedServer       // no daemon in particular
)

// trait is what there is to know of a kind.
type trait struct {
	kind   Kind
	weight int // cards in the deck
	scope  scope
	// solo: nothing else goes wrong at the time. That is where leafd's documents say
	// that a second misfortune is one too many, or that an operator has to watch; and
	// where a second daemon has to serve.
	solo        bool
	least, most time.Duration // how long it lasts
	// uses are what it has for itself.
	uses []string
}

// resources that kinds have for themselves.
const (
	process  = "process"
	clocks   = "clock"
	disk     = "disk"
	netZK    = "net-zk"
	netSQL   = "net-sql"
	netPeers = "net-peers"
	ensemble = "zk"
	database = "sql"
	spare    = "spare" // the one daemon that faults start besides
)

func traits() []trait {
	const ms, s = time.Millisecond, time.Second
	return []trait{
		{Kill, 4, oneDaemon, false, 0, 3 * s, []string{process}},
		{Stop, 2, oneDaemon, false, 0, 2 * s, []string{process}},
		{Storm, 2, oneDaemon, false, 2 * s, 6 * s, []string{process}},
		{Freeze, 3, oneDaemon, false, 200 * ms, 3 * s, []string{process}},
		{SessionExpiry, 2, oneDaemon, false, 4 * s, 7 * s, []string{process}},
		{Rollback, 3, oneDaemon, false, 5 * s, 8 * s, []string{process, clocks, netZK}},
		{RollbackStart, 2, oneDaemon, false, 1 * s, 3 * s, []string{process, clocks, netZK}},
		{WrongStart, 1, oneDaemon, false, 2 * s, 4 * s, []string{process, clocks}},
		{ClockBack, 3, oneDaemon, false, 500 * ms, 4 * s, []string{clocks}},
		{ClockAhead, 2, oneDaemon, false, 500 * ms, 4 * s, []string{clocks}},
		{ClockJump, 1, oneDaemon, false, 1 * s, 4 * s, []string{clocks}},
		{ClockDrift, 2, oneDaemon, false, 3 * s, 6 * s, []string{clocks}},
		{DirectoryLost, 2, oneDaemon, true, 0, 1 * s, []string{process, disk}},
		{DirectoryCopied, 2, oneDaemon, true, 3 * s, 8 * s, []string{process, disk}},
		{DirectoryCloned, 1, oneDaemon, true, 3 * s, 8 * s, []string{process, disk}},
		{Elsewhere, 1, oneDaemon, true, 1 * s, 3 * s, []string{process, clocks, disk}},
		{FrozenElsewhere, 2, oneDaemon, true, 1 * s, 3 * s, []string{process, clocks, disk}},
		{CutElsewhere, 2, oneDaemon, true, 1 * s, 3 * s, []string{process, clocks, disk, netZK, netPeers}},
		{DoubleStart, 2, oneDaemon, false, 6 * s, 8 * s, []string{process, disk, netZK, spare}},
		{DiskFull, 2, oneDaemon, false, 3 * s, 60 * s, []string{process, disk}},
		{Release, 1, oneDaemon, true, 0, 1 * s, []string{process, disk}},
		{ReleaseLive, 1, oneDaemon, true, 1 * s, 2 * s, []string{process, clocks, disk, netZK}},
		{HandedOver, 1, oneDaemon, true, 0, 1 * s, []string{process, clocks, disk}},
		{Outlived, 1, oneDaemon, true, 1 * s, 3 * s, []string{process, clocks, disk, netZK, netPeers}},
		{StoodOutlived, 1, oneDaemon, true, 1 * s, 3 * s, []string{process, clocks, disk, netZK, netPeers}},
		{Stood, 2, oneDaemon, false, 500 * ms, 8 * s, []string{process, clocks}},
		{Settings, 2, oneDaemon, true, 500 * ms, 4 * s, []string{process}},
		{RecordRestored, 1, oneDaemon, true, 500 * ms, 2 * s, []string{process, clocks, disk, netZK}},
		{EntryRemoved, 1, oneDaemon, true, 0, 1 * s, []string{process, ensemble}},
		{ClaimJump, 1, oneDaemon, true, 14 * s, 16 * s, []string{process, clocks, disk}}, // its end is in it
		{Unwritable, 1, oneDaemon, true, 500 * ms, 2 * s, []string{process, clocks, disk, netZK}},

		{HostCut, 3, someDaemons, false, 500 * ms, 6 * s, []string{netZK, netSQL, netPeers}},
		{HostDeaf, 2, someDaemons, false, 500 * ms, 6 * s, []string{netZK, netSQL, netPeers}},
		{HostMute, 2, someDaemons, false, 500 * ms, 6 * s, []string{netZK, netSQL, netPeers}},
		{ZooKeeperCut, 3, someDaemons, false, 500 * ms, 6 * s, []string{netZK}},
		{ZooKeeperSilent, 2, someDaemons, false, 1 * s, 6 * s, []string{netZK}},
		{ZooKeeperDeaf, 2, someDaemons, false, 1 * s, 6 * s, []string{netZK}},
		{ZooKeeperSlow, 1, someDaemons, false, 2 * s, 6 * s, []string{netZK}},
		{DatabaseCut, 2, someDaemons, false, 1 * s, 6 * s, []string{netSQL}},
		{DatabaseSilent, 2, someDaemons, false, 1 * s, 6 * s, []string{netSQL}},
		{DatabaseSlow, 1, someDaemons, false, 2 * s, 6 * s, []string{netSQL}},
		{PeersCut, 1, someDaemons, false, 2 * s, 6 * s, []string{netPeers}},

		{LeaderKilled, 2, sharedServer, false, 500 * ms, 4 * s, []string{ensemble}},
		{FollowerKilled, 2, sharedServer, false, 500 * ms, 4 * s, []string{ensemble}},
		{QuorumKilled, 2, sharedServer, false, 1 * s, 6 * s, []string{ensemble}},
		{LeaderFrozen, 2, sharedServer, false, 1 * s, 5 * s, []string{ensemble}},
		{FollowerFrozen, 1, sharedServer, false, 1 * s, 5 * s, []string{ensemble}},
		{EnsembleKilled, 1, sharedServer, false, 1 * s, 5 * s, []string{ensemble}},
		{Emptied, 1, sharedServer, true, 0, 1 * s, []string{ensemble}},
		{EmptiedNewcomer, 1, sharedServer, true, 500 * ms, 2 * s, []string{ensemble}},
		{EmptiedLong, 1, sharedServer, true, 500 * ms, 2 * s, []string{ensemble}},
		{ForeverRemoved, 1, sharedServer, true, 500 * ms, 2 * s, []string{ensemble}},
		{SetBack, 1, sharedServer, true, 0, 1 * s, []string{ensemble}},
		{SetBackNewcomer, 1, sharedServer, true, 0, 1 * s, []string{ensemble}},
		{SetBackReplaced, 1, oneDaemon, true, 0, 1 * s, []string{process, clocks, disk, netZK, netPeers, ensemble}},
		{Recovered, 1, sharedServer, true, 0, 1 * s, []string{ensemble}},
		{RecoveredTaken, 1, oneDaemon, true, 0, 1 * s, []string{process, netZK, ensemble}},
		{DatabaseKilled, 2, sharedServer, false, 0, 4 * s, []string{database}},
		{DatabaseFrozen, 2, sharedServer, false, 1 * s, 5 * s, []string{database}},
		{DatabaseLocked, 1, sharedServer, false, 30 * s, 30 * s, []string{database}},
		{DatabaseSetBack, 2, sharedServer, true, 3 * s, 6 * s, []string{database}},
		{CommitsLost, 2, sharedServer, true, 1 * s, 4 * s, []string{database}},
		{UnguardedLost, 2, sharedServer, true, 3 * s, 6 * s, []string{database}},
		{TagDeleted, 1, sharedServer, true, 1 * s, 3 * s, []string{database}},
	}
}

// Kinds returns all kinds.
func Kinds() []Kind {
	var kinds []Kind
	for _, t := range traits() {
		kinds = append(kinds, t.kind)
	}
	return kinds
}

// claims returns what a fault has for itself.
func (t trait) claims(f Fault, daemons int) []string {
	var list []string
	for _, use := range t.uses {
		switch {
		case use == ensemble || use == database || use == spare:
			list = append(list, use)
		case f.Daemon == AllDaemons:
			for d := range daemons {
				list = append(list, use+strconv.Itoa(d))
			}
		default:
			list = append(list, use+strconv.Itoa(f.Daemon))
		}
	}
	return list
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

// OfDaemons tells whether a kind befalls daemons, rather than what all of them need.
func OfDaemons(kind Kind) bool {
	return slices.ContainsFunc(traits(), func(t trait) bool { return t.kind == kind && t.scope != sharedServer })
}
