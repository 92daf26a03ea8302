package main

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/server"
)

// Whom tls-client-auth wants a certificate of.
const (
	clientAuthAll   = "all"
	clientAuthAdmin = "admin"
)

func listenSettings() []setting {
	return []setting{
		{
			name: "listen-unix", group: "More listeners, and TLS", kind: kindText,
			usage: "unix socket to serve HTTP on as well, a path; empty: none",
			more:  "It answers what the address of listen does, without TLS: socket-mode says who may connect.",
		},
		{
			name: "admin-listen", kind: kindText,
			usage: "address of the admin surface, host:port or unix:/path; empty: none",
			more: "It answers all but IDs, and pprof. Changes of tags and /metrics are on listen no longer then.\n" +
				"pprof needs the admin token where there is one.",
		},
		{
			name: "socket-mode", kind: kindText, def: "0660",
			usage: "permissions of the unix sockets, octal; whoever may write may connect",
		},
		{
			name: "tls-cert", kind: kindText,
			usage: "file with the certificate, and what lies between it and its CA, for listen and admin-listen; empty: no TLS",
			more: "Certificate, key and CAs are taken anew when the files change. Unix sockets stay without TLS.\n" +
				"The daemons of a cluster ask each other for their clocks over TLS then.",
		},
		{
			name: "tls-key", kind: kindText,
			usage: "file with the key of tls-cert",
			more:  "Make it readable to the daemon alone.",
		},
		{
			name: "tls-client-ca", kind: kindText,
			usage: "file with the certificates that sign clients'; empty: clients need none",
		},
		{
			name: "tls-client-auth", kind: kindText, def: clientAuthAll, words: []string{clientAuthAll, clientAuthAdmin},
			usage: "who needs a certificate of tls-client-ca: all, or those of admin-listen only: admin",
			more: "With all, daemons show each other tls-cert, which tls-client-ca has to have signed for\n" +
				"clients and for servers, and believe no clock without one.",
		},
	}
}

// clientsNeedCert tells whether a surface wants certificates of its clients.
func (c Config) clientsNeedCert(surface server.Surface) bool {
	return c.TLS.ClientCA != "" && (surface == server.Admin || c.TLSClientAuth == clientAuthAll)
}

// fillListeners checks the listeners beside --listen, and TLS.
func (c *Config) fillListeners(v *values) {
	c.TLS = server.CertificateFiles{Cert: v.text("tls-cert"), Key: v.text("tls-key"), ClientCA: v.text("tls-client-ca")}
	c.TLSClientAuth = v.text("tls-client-auth")
	c.fillTLS(v)
	if v.good("socket-mode") {
		mode, err := strconv.ParseUint(v.text("socket-mode"), 8, 32)
		if err != nil || mode > 0o777 {
			v.refuse("socket-mode", "want up to three octal digits, such as 0660")
		}
		c.SocketMode = fs.FileMode(mode)
	}
	if c.ListenUnix = strings.TrimPrefix(v.text("listen-unix"), unixScheme); c.ListenUnix != "" {
		if why := checkSocketPath(c.ListenUnix); why != "" {
			v.refuse("listen-unix", why)
		}
	}
	c.AdminListen = v.text("admin-listen")
	if c.AdminListen == "" || !v.good("admin-listen") {
		return
	}
	var why string
	if path, ok := strings.CutPrefix(c.AdminListen, unixScheme); ok {
		if why = checkSocketPath(path); why == "" && path == c.ListenUnix {
			why = "want another socket than listen-unix"
		}
	} else if why = checkListen(c.AdminListen); why != "" {
		why = "want host:port or unix:/path, such as 127.0.0.1:8081"
	}
	if why != "" {
		v.refuse("admin-listen", why)
		return
	}
	if v.text("admin-token-file") == "" && c.TLS.ClientCA == "" && !strings.HasPrefix(c.AdminListen, unixScheme) && reachable(c.AdminListen) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("admin-listen is %s: other machines may reach pprof there, which shows the process's memory; set admin-token-file, or listen on 127.0.0.1", c.AdminListen))
	}
}

// reachable tells whether other machines may reach a TCP address to listen on.
func reachable(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// fillTLS checks the certificate and what is to be done with it.
func (c *Config) fillTLS(v *values) {
	if !v.good("tls-cert", "tls-key", "tls-client-ca", "tls-client-auth") {
		return
	}
	switch {
	case c.TLS.Cert != "" && c.TLS.Key == "":
		v.refuse("tls-cert", "want tls-key with it")
		return
	case c.TLS.Key != "" && c.TLS.Cert == "":
		v.refuse("tls-key", "want tls-cert with it")
		return
	case c.TLS.ClientCA != "" && c.TLS.Cert == "":
		v.refuse("tls-client-ca", "want tls-cert with it: without, there is no TLS")
		return
	case c.TLS.Cert == "":
		return
	}
	if _, err := server.OpenCertificates(c.TLS, 0, nil); err != nil {
		v.refuse("tls-cert", err.Error())
		return
	}
	if info, err := os.Stat(c.TLS.Key); err == nil && info.Mode().Perm()&0o004 != 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("tls-key %s is readable to every user of this machine (mode %04o): chmod o-r", c.TLS.Key, info.Mode().Perm()))
	}
	// Found at the start, not when the first clock goes unchecked.
	if c.TLS.Mutual = len(c.ZK) > 0 && c.clientsNeedCert(server.Public); c.TLS.Mutual {
		if _, err := server.OpenCertificates(c.TLS, 0, nil); err != nil {
			v.refuse("tls-client-auth", fmt.Sprintf("with zk, the other daemons have to take tls-cert as a client's: %v; or set admin", err))
		}
	}
}

// checkSocketPath says what is wrong with the path of a unix socket; "" when
// nothing is.
func checkSocketPath(path string) string {
	const most = 107 // sockaddr_un's, less its end
	switch {
	case path == "":
		return "want a path"
	case strings.HasPrefix(path, "@") || strings.ContainsRune(path, 0):
		return "want a path in the file system: an abstract socket has no permissions"
	case len(path) > most:
		return fmt.Sprintf("the path has %d bytes: a unix socket's has at most %d", len(path), most)
	}
	return ""
}

// unixScheme begins the address of a unix socket.
const unixScheme = "unix:"

// socketProbe bounds the look whether somebody serves a socket that is there.
const socketProbe = 2 * time.Second

// listenTCP is net.Listen.
func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", address)
}
