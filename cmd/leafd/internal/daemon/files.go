package daemon

import (
	"fmt"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/rs/zerolog"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/peerclock"
)

const (
	// ownFiles is more than a daemon has open beside clients and peers: standard streams
	// and listeners, two sessions with ZooKeeper and the ones before, 20 connections to the
	// database or some files of SQLite, the data directory, alarms on their way,
	// lookups of names, the watchdog.
	ownFiles = 128
	// ReservedFiles is how many open files are kept from the clients of the public
	// listeners.
	ReservedFiles = ownFiles + peerclock.DefaultParallel + conn.AdminConns + conn.Guests
	// leastConnections is how many are taken of however little memory.
	leastConnections = 64
	// LeastFiles is the lowest limit of open files that a daemon starts with.
	LeastFiles = 512
)

// OpenFiles returns how many files this process, and so a daemon started the same way, may have
// open: the hard limit, to which Go has raised the soft one. It returns the error of getrlimit(2).
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err //nolint:unconvert // its type differs by system
}

// Connections returns how many connections, of each bytes, a daemon takes that may have so many files open, and
// use so much memory, 0 where that isn't known: server.DefaultMaxConns, or fewer. It returns an error below
// LeastFiles. It keeps:
//
//  1. Connections and what is kept from them are never more than the files: a
//     crowd of clients doesn't keep the daemon from its record, ZooKeeper or database.
//  2. Connections take half of the memory at most, and no fewer than leastConnections
//     are taken.
func Connections(files, memory, each uint64) (int, error) {
	if files < LeastFiles {
		return 0, fmt.Errorf("%d files may be open at once, and leafd needs %d: raise LimitNOFILE of the unit, or ulimit -n", files, LeastFiles)
	}
	most := uint64(server.DefaultMaxConns)
	if memory > 0 {
		most = min(most, max(leastConnections, memory/2/each))
	}
	return int(min(most, files-ReservedFiles)), nil
}

// connections is Connections for this process, with a line of the log where they are fewer than leafd can take.
func (d *daemon) connections(memory uint64) (int, error) {
	files, err := OpenFiles()
	if err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	each := uint64(conn.Bytes)
	if d.certificates != nil {
		each = conn.SecureBytes
	}
	n, err := Connections(files, memory, each)
	if err != nil {
		return 0, settings.AsUsage(err)
	}
	if n < server.DefaultMaxConns {
		level := zerolog.InfoLevel            // little memory is no error
		if uint64(n)+ReservedFiles == files { //nolint:gosec // n is positive
			level = zerolog.WarnLevel
		}
		d.Log.WithLevel(level).Int("max_connections", n).Uint64("memory", memory).Uint64("open_files", files).
			Msgf("%d connections at most, of %d that leafd can take: they use half of the memory, and leafd keeps %d open files for itself; raise LimitNOFILE of the unit, or ulimit -n", n, server.DefaultMaxConns, ReservedFiles)
	}
	return n, nil
}

// boundMemory returns how many bytes this process may use: the least limit of its control groups, and of
// the machine; 0 where none is known. It has the garbage collector work harder before a control group
// ends the daemon, unless GOMEMLIMIT says when: what the kernel holds of connections is in the group, too.
func boundMemory() uint64 {
	_, _ = memlimit.Set(memlimit.WithRatio(0.8)) // where no limit is known there is none to keep
	machine, _ := memlimit.FromSystem()
	if group, err := memlimit.FromCgroup(); err == nil && (machine == 0 || group < machine) {
		return group
	}
	return machine
}
