package settings

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/leafd/leafd/server/conn"
)

// ClientsNeedCert tells whether clients are asked for certificates.
func (c Config) ClientsNeedCert() bool { return c.Listen.TLS.ClientCA != "" }

// URL is where clients on this machine reach the daemon.
func (c Config) URL() string { return c.URLOf(c.Listen.Address) }

// URLOf is URL for another address that the daemon listens on, a unix socket's too.
func (c Config) URLOf(address string) string {
	host, port, err := net.SplitHostPort(address)
	if strings.HasPrefix(address, UnixScheme) || err != nil {
		return address
	}
	scheme := "http"
	if c.Listen.TLS.Cert != "" {
		scheme = "https"
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// fillListen reads --listen. A unix socket alone will not do: our identity, and where peers ask
// for the clock, derive from the address.
func (c *Config) fillListen(v *Values) {
	if !v.good("listen") {
		return
	}
	for part := range strings.SplitSeq(v.Text("listen"), ",") {
		part = strings.TrimSpace(part)
		field, why := &c.Listen.Address, checkListen(part)
		if strings.HasPrefix(part, UnixScheme) {
			field = &c.Listen.Unix
		}
		if *field != "" {
			why = "want host:port[,unix:/path]: one address, and at most one unix socket"
		}
		if why != "" {
			v.refuse("listen", why)
			return
		}
		*field = part
	}
	if c.Listen.Address == "" {
		v.refuse("listen", "want host:port beside the unix socket: that is where others reach this daemon")
	}
}

// fillListeners checks the listeners beside --listen, and TLS.
func (c *Config) fillListeners(v *Values) {
	c.fillTLS(v)
	if slices.ContainsFunc(splitNames(c.HTTP.AllowHost), func(name string) bool { return strings.ContainsAny(name, ":/@") }) {
		v.refuse("allow-host", "want names alone, without http:// and without a port")
	}
	taken := map[string]string{c.Listen.Unix: "listen", c.Listen.Address: "listen"}
	for _, l := range []struct{ name, address string }{{"listen-redis", c.Listen.Redis}, {"admin-listen", c.Listen.Admin}} {
		if l.address == "" || !v.good(l.name) {
			continue
		}
		why := checkListen(l.address)
		if other := taken[l.address]; why == "" && other != "" && !strings.HasSuffix(l.address, ":0") { // port 0 is any that is free
			why = "want another address than that of " + other
		}
		if why != "" {
			v.refuse(l.name, why)
			continue
		}
		taken[l.address] = l.name
	}
}

// splitNames returns the names of allow-host.
func splitNames(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// fillTLS checks the certificate and what is to be done with it.
func (c *Config) fillTLS(v *Values) {
	if !v.good("tls-cert", "tls-key", "tls-client-ca") {
		return
	}
	switch {
	case !v.together("tls-cert", "tls-key"):
		return
	case c.Listen.TLS.ClientCA != "" && c.Listen.TLS.Cert == "":
		v.refuse("tls-client-ca", "want tls-cert with it: without, there is no TLS")
		return
	case c.Listen.TLS.Cert == "":
		return
	}
	if _, err := conn.OpenCertificates(c.Listen.TLS, 0, nil); err != nil {
		v.refuse("tls-cert", err.Error())
		return
	}
	c.warnOfKey("tls-key", c.Listen.TLS.Key)
	// Found at the start, not when the first clock goes unchecked.
	if c.Listen.TLS.Mutual = len(c.ZooKeeper.Servers) > 0 && c.ClientsNeedCert(); c.Listen.TLS.Mutual {
		if _, err := conn.OpenCertificates(c.Listen.TLS, 0, nil); err != nil {
			v.refuse("tls-client-ca", fmt.Sprintf("with zk, the other daemons have to take tls-cert as a client's: %v", err))
		}
	}
}

// CheckSocketPath says what is wrong with the path of a unix socket; "" when
// nothing is.
func CheckSocketPath(path string) string {
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

// UnixScheme begins the address of a unix socket.
const UnixScheme = "unix:"
