package conn

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"

	"github.com/rs/zerolog"

	"github.com/leafd/leafd/server/fair"
)

// From adds the sender of a request: the address, user and process of a unix socket's
// peer, and the verified certificate.
func From(e *zerolog.Event, nc net.Conn) *zerolog.Event {
	e = e.Stringer("client", nc.RemoteAddr()).Stringer("surface", SurfaceOf(nc))
	if uid, pid, ok := unixPeer(nc); ok {
		e = e.Uint32("uid", uid).Int32("pid", pid)
	}
	if cert := clientCertificate(nc); cert != nil {
		e = e.Stringer("certificate", cert.Subject).Stringer("serial", cert.SerialNumber)
	}
	return e
}

// clientCertificate returns the verified certificate of a client; nil if it has none.
func clientCertificate(nc net.Conn) *x509.Certificate {
	c := beneath[*tls.Conn](nc)
	if c == nil {
		return nil
	}
	if certs := (*c).ConnectionState().PeerCertificates; len(certs) > 0 { // none is there that VerifyConnection refused
		return certs[0]
	}
	return nil
}

// beneath returns the connection of type T that nc is or wraps; nil if there is none.
func beneath[T net.Conn](nc net.Conn) *T {
	for nc != nil {
		if c, ok := nc.(T); ok {
			return &c
		}
		next, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		nc = next.NetConn()
	}
	return nil
}

// Origin returns the address of requests without a token: of the client's certificate, else of where it came from.
func (c *Conn) Origin() fair.Address {
	if c.origin == nil {
		of := c.network
		if cert := clientCertificate(c); cert != nil {
			of = fair.AddressOf(cert.Raw)
		}
		c.origin = &of
	}
	return *c.origin
}

// networkOf returns where a connection came from. A client has a whole /64 of IPv6 addresses as a
// rule, so that they are one. Of a unix socket it is the user.
func networkOf(nc net.Conn) (o fair.Address) {
	if uid, _, ok := unixPeer(nc); ok {
		o[0] = 0xff // no client has a multicast address
		binary.BigEndian.PutUint32(o[1:], uid)
		return o
	}
	if tcp, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		if ip := tcp.IP.To4(); ip != nil {
			copy(o[:], ip.To16())
		} else {
			copy(o[:8], tcp.IP)
		}
	}
	return o
}
