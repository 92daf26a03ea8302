package proctest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
