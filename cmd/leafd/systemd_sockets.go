package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/coreos/go-systemd/v22/activation"
)

// Names that a socket unit gives its sockets (FileDescriptorName=).
const (
	publicSocket = "public"
	adminSocket  = "admin"
)

// maxSockets is more than any service manager passes.
const maxSockets = 1024

// errSocket is returned for sockets that leafd was started with and can't serve. One
// that is held and not served would keep clients waiting for ever.
var errSocket = errors.New("sockets passed by systemd (LISTEN_FDS)")

// inheritedSockets returns the listening sockets that the process was started with,
// by name; nil where there are none. The variables that tell of them are gone then,
// so that programs which leafd runs don't take them for theirs, nor get the sockets.
func inheritedSockets() (map[string]net.Listener, error) {
	// Room for as many as it says is made before one is looked at.
	if n, err := strconv.Atoi(os.Getenv("LISTEN_FDS")); err == nil && n > maxSockets {
		return nil, asUsage(fmt.Errorf("%w: LISTEN_FDS is %d: leafd serves two at most", errSocket, n))
	}
	files := activation.Files(true)
	if len(files) == 0 {
		return nil, nil
	}
	sockets := make(map[string]net.Listener, len(files))
	for _, f := range files {
		name := f.Name()
		// One without a name of ours can only be meant for what leafd always has.
		if len(files) == 1 && name != adminSocket {
			name = publicSocket
		}
		ln, err := net.FileListener(f)
		if cerr := f.Close(); err == nil { // FileListener has a descriptor of its own
			err = cerr
		}
		switch {
		case err != nil:
			err = fmt.Errorf("%w: %q is no listening stream socket: %w", errSocket, name, err)
		case name != publicSocket && name != adminSocket:
			err = fmt.Errorf("%w: %q on %s: want FileDescriptorName=%s or %s", errSocket, name, ln.Addr(), publicSocket, adminSocket)
		case sockets[name] != nil:
			err = fmt.Errorf("%w: there are two named %q, on %s and on %s: leafd serves one", errSocket, name, sockets[name].Addr(), ln.Addr())
		}
		if err != nil {
			return nil, asUsage(err)
		}
		sockets[name] = ln
	}
	return sockets, nil
}

// fillInherited makes the address of an inherited public socket the one that leafd
// listens on, whatever --listen says: the socket is where clients arrive, and the
// address that others are told is derived from it.
func (c *Config) fillInherited(sockets map[string]net.Listener, v *values) {
	ln := sockets[publicSocket]
	if ln == nil || !v.good("listen") {
		return
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		v.refuse("listen", fmt.Sprintf("the socket %q of systemd is %s, want a TCP one: peers ask for the clock there", publicSocket, ln.Addr()))
		return
	}
	served := addr.String()
	if v.find("listen").source != fromDefault && !sameAddress(c.Listen, served) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("systemd's socket listens on %s, and listen is %s: the socket is served, and listen ignored", served, c.Listen))
	}
	c.Listen = served
	v.derive("listen", served)
}

// sameAddress tells whether two addresses to listen on are one. The several ways to
// write "every address" are.
func sameAddress(a, b string) bool {
	return a == b || every(a) == every(b)
}

func every(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || (err == nil && ip.Unmap().IsUnspecified()) {
		host = "*"
	}
	return net.JoinHostPort(host, port)
}
