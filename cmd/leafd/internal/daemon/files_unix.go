//go:build unix

package daemon

import (
	"fmt"
	"syscall"
)

// OpenFiles returns how many files this process, and so a daemon started the same way,
// may have open. Go has raised the soft limit to the hard one.
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("getrlimit: %w", err)
	}
	return uint64(limit.Cur), nil //nolint:unconvert // its type differs by system
}
