package main

import "time"

// kind is a way in which something goes wrong.
type kind struct {
	name   string
	weight int // in the deck
	hits   scope
	// solo: nothing else goes wrong at the time, where PROMISES excludes that.
	solo        bool
	least, most time.Duration // how long it lasts
	do          deed
}

// deed begins a fault and returns what ends it; nil where it has ended.
type deed func(c *chaos, f fault) (undo, error)

type undo func() error

// kinds returns what real processes, servers, disks and networks alone show. The simulation in one process
// (cmd/leafd/internal/simulation) has the rest: settings, clones, orders of ZooKeeper's answers, leases that end.
func kinds() []kind {
	const ms, s = time.Millisecond, time.Second
	return []kind{
		{"kill -9", 4, oneDaemon, false, 0, 3 * s, (*chaos).killed},
		{"clean stop", 2, oneDaemon, false, 0, 2 * s, (*chaos).stopped},
		{"restart storm", 2, oneDaemon, false, 2 * s, 6 * s, (*chaos).storm},
		{"frozen", 4, oneDaemon, false, 200 * ms, 7 * s, (*chaos).frozen}, // a session lasts 2 s
		{"kill -9, clock back, restart", 3, oneDaemon, false, 5 * s, 8 * s, (*chaos).rolledBack},
		{"clock back at the end of a start", 2, oneDaemon, false, 1 * s, 3 * s, (*chaos).rolledBackAtStart},
		{"clock back", 3, oneDaemon, false, 500 * ms, 4 * s, clockSet(-3 * s)},
		{"clock ahead", 3, oneDaemon, false, 500 * ms, 4 * s, clockSet(8 * s)},
		{"data directory lost", 2, oneDaemon, true, 0, 1 * s, (*chaos).directoryLost},
		{"data directory copied", 2, oneDaemon, true, 1 * s, 3 * s, (*chaos).directoryCopied},
		{"started twice", 2, oneDaemon, true, 6 * s, 8 * s, (*chaos).startedTwice},
		{"disk full", 2, oneDaemon, false, 3 * s, 10 * s, (*chaos).diskFull},

		{"cut off from all", 3, someDaemons, false, 500 * ms, 6 * s, cutHost(true, true)}, // clients too
		{"hears nothing", 2, someDaemons, false, 500 * ms, 6 * s, cutHost(true, false)},
		{"heard by none", 2, someDaemons, false, 500 * ms, 6 * s, cutHost(false, true)},
		{"cut off from ZooKeeper", 3, someDaemons, false, 500 * ms, 6 * s, onZooKeeper(cutOff)},
		{"ZooKeeper's packets lost", 2, someDaemons, false, 1 * s, 6 * s, onZooKeeper(silent)},
		{"cut off from MariaDB", 2, someDaemons, false, 1 * s, 6 * s, onDatabase(cutOff)},
		{"MariaDB's packets lost", 2, someDaemons, false, 1 * s, 6 * s, onDatabase(silent)},

		{"ZooKeeper's leader killed", 2, zooKeeper, false, 500 * ms, 4 * s, votersKilled(1)},
		{"ZooKeeper's quorum killed", 2, zooKeeper, false, 1 * s, 6 * s, votersKilled(2)},
		{"ZooKeeper killed whole", 1, zooKeeper, false, 1 * s, 5 * s, votersKilled(3)},
		{"ZooKeeper's leader frozen", 2, zooKeeper, false, 1 * s, 5 * s, (*chaos).leaderFrozen},
		{"ZooKeeper emptied", 1, zooKeeper, true, 0, 1 * s, (*chaos).emptied},
		{"ZooKeeper restored", 1, zooKeeper, true, 0, 1 * s, (*chaos).restored},
		{"MariaDB killed", 2, database, false, 0, 4 * s, (*chaos).databaseKilled},
		{"MariaDB frozen", 2, database, false, 1 * s, 5 * s, (*chaos).databaseFrozen},
		{"segment table locked", 1, database, false, 5 * s, 15 * s, (*chaos).tableLocked},
		{"max_id set back", 2, database, true, 3 * s, 6 * s, (*chaos).maxIDsSetBack},
		{"MariaDB loses its last commits", 2, database, true, 1 * s, 4 * s, (*chaos).commitsLost},
	}
}
