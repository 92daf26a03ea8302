//go:build !linux

package conn

import "net"

// newRawConn returns nc.
func newRawConn(nc net.Conn) net.Conn { return nc }
