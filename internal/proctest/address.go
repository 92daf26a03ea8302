package proctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// FreeAddress returns an address of 127.0.0.1 that nobody listens on, below the ports
// that the system gives to outgoing connections: with thousands of those around, one
// would take it before the process does that is meant to, or while it restarts.
func FreeAddress() (string, error) {
	const from, below = 11000, 32000
	var last error
	for range 1000 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", from+rand.IntN(below-from)))
		if err != nil {
			last = err
			continue
		}
		return listener.Addr().String(), listener.Close()
	}
	return "", errors.Join(errors.New("proctest: no port is free"), last)
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
