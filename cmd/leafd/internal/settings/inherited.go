package settings

import (
	"fmt"
	"net"
	"strings"
)

// Names that a socket unit gives its sockets (FileDescriptorName=).
const (
	PublicSocket = "public"
	AdminSocket  = "admin"
	RedisSocket  = "redis"
)

// fillInherited makes the address of an inherited public socket the one that leafd
// listens on, in place of --listen: the socket is where clients arrive, and the
// address that others are told is derived from it.
func (c *Config) fillInherited(sockets map[string]net.Listener, v *Values) {
	ln := sockets[PublicSocket]
	if ln == nil || !v.good("listen") {
		return
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		v.refuse("listen", fmt.Sprintf("the socket %q of systemd is %s, want a TCP one: peers ask for the clock there", PublicSocket, ln.Addr()))
		return
	}
	served := addr.String()
	if v.Find("listen").source != FromDefault && c.Listen.Address != served {
		c.Warnings = append(c.Warnings, fmt.Sprintf("systemd's socket listens on %s, and listen is %s: the socket is served, and that address ignored", served, c.Listen.Address))
	}
	c.Listen.Address = served
	v.derive("listen", strings.TrimSuffix(served+","+c.Listen.Unix, ","))
}
