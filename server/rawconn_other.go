//go:build !linux

package server

import "net"

// newRawConn returns nc.
func newRawConn(nc net.Conn) net.Conn { return nc }
