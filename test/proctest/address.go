package proctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// FreeAddress returns an address of 127.0.0.1 that no process listens on, below the ports
// that the system gives to outgoing connections: with thousands of those around, one would
// take it before the process that it is for, or while that restarts. It is given to no other
// caller while this process runs, nor by FreeAddress in another one.
func FreeAddress() (string, error) { return ports.free() }

var ports portPool

// portPool gives out ports, each once. It has them in blocks: the process that listens on
// the first port of a block has the others.
type portPool struct {
	mu        sync.Mutex
	blocks    []net.Listener // mu protects; on the first port of each block that is ours
	next, end int            // mu protects; what is left of the block taken last: next up to end
}

// Blocks are as long, and lie in this range.
const (
	firstPort, endOfPorts = 11000, 32000
	blockPorts            = 100
)

func (p *portPool) free() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var failed error
	for range 1000 {
		if p.next == p.end {
			if failed = p.blockLocked(); failed != nil {
				continue
			}
		}
		p.next++
		address, err := tryPort(p.next - 1)
		if err == nil {
			return address, nil
		}
		failed = err // some program of the machine's
	}
	return "", errors.Join(errors.New("proctest: no port is free"), failed)
}

// blockLocked takes a block that no process has.
func (p *portPool) blockLocked() error {
	first := firstPort + rand.IntN((endOfPorts-firstPort)/blockPorts)*blockPorts
	block, err := listenAt(first)
	if err != nil {
		return err
	}
	p.blocks = append(p.blocks, block) // until the process ends
	p.next, p.end = first+1, first+blockPorts
	return nil
}

// tryPort returns the address of port where it is free. No process is forked meanwhile: it would
// have a copy of the listener, and with it the port, until it executes its program.
func tryPort(port int) (string, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	listener, err := listenAt(port)
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

func listenAt(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// DeadAddress returns an address of 127.0.0.1 that refuses connections until the test
// ends: a socket of ours has the port, and doesn't listen.
func DeadAddress(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.CloseOnExec(fd)
	t.Cleanup(func() { _ = unix.Close(fd) })
	var name unix.Sockaddr
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		name, err = unix.Getsockname(fd)
	}
	bound, ok := name.(*unix.SockaddrInet4)
	if !ok {
		t.Fatalf("proctest: binding a socket: %v", err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.Port)
}
