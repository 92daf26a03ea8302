// Package listen opens ports, and names the process that has one that is taken.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"

	"github.com/prometheus/procfs"
)

// HeldError is returned by TCP where another process has the port, and is known.
type HeldError struct {
	Holder string
	err    error
}

func (e *HeldError) Error() string { return fmt.Sprintf("%v: %s has the port", e.err, e.Holder) }

func (e *HeldError) Unwrap() error { return e.err }

// TCP is net.Listen; HeldError.
func TCP(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		if holder := holderOf(address); holder != "" {
			err = &HeldError{Holder: holder, err: err}
		}
	}
	return ln, err
}

// holderOf names the process that listens on the port of address; empty where that can't
// be seen: without /proc, and of other users' processes without privileges.
func holderOf(address string) string {
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return ""
	}
	four, _ := fs.NetTCP() //nolint:staticcheck // its successor, netlink, is too much for one message; a machine may have one of the two only
	six, _ := fs.NetTCP6() //nolint:staticcheck // as above
	var sockets []string
	for _, line := range slices.Concat(four, six) {
		if line.LocalPort == port && line.St == tcpListen {
			sockets = append(sockets, fmt.Sprintf("socket:[%d]", line.Inode))
		}
	}
	processes, _ := fs.AllProcs()
	for _, p := range processes {
		files, _ := p.FileDescriptorTargets()
		if slices.ContainsFunc(files, func(file string) bool { return slices.Contains(sockets, file) }) {
			name, _ := p.Comm()
			return fmt.Sprintf("process %d (%s)", p.PID, name)
		}
	}
	return ""
}

// tcpListen is the kernel's TCP_LISTEN, as /proc/net/tcp has it.
const tcpListen = 0x0a
