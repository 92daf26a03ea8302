package settings

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/zkreg/zksession"
)

// fillZooKeeper checks the settings of ZooKeeper. Nothing is connected to: a
// server that is down is no bad setting.
func (c *Config) fillZooKeeper(v *Values) {
	if v.good("zk") {
		servers, why := ParseServers(v.Text("zk"))
		if why != "" {
			v.refuse("zk", why)
		}
		c.ZooKeeper.Servers = servers
	}
	for _, path := range []struct{ name, path string }{{"zk-root", c.ZooKeeper.Root}, {"zk-forever-path", c.ZooKeeper.ForeverPath}} {
		if !v.good(path.name) || path.name == "zk-forever-path" && path.path == "" {
			continue
		}
		if why := checkZnode(path.path); why != "" {
			v.refuse(path.name, why)
		}
	}
	c.fillSecurity(v)
}

// fillSecurity reads the files of digest and TLS.
func (c *Config) fillSecurity(v *Values) {
	if path := v.Text("zk-auth-file"); path != "" {
		credentials, warning, err := zksession.ParseCredentials(path)
		if err != nil {
			v.refuse("zk-auth-file", err.Error())
		}
		c.warn(warning)
		c.ZooKeeper.Auth = credentials
	}
	files := plainfile.TLSFiles{CA: v.Text("zk-tls-ca"), Cert: v.Text("zk-tls-cert"), Key: v.Text("zk-tls-cert")}
	switch {
	case files.CA == "" && files.Cert != "":
		v.refuse("zk-tls-cert", "want zk-tls-ca with it: without, the connection is plain")
	case files.CA != "":
		if files.CA == systemCAs {
			files.CA = ""
		}
		conf, err := files.Config()
		if err != nil {
			name := "zk-tls-ca"
			if _, e := (plainfile.TLSFiles{CA: files.CA}).Config(); e == nil {
				name = "zk-tls-cert"
			}
			v.refuse(name, err.Error())
		}
		c.ZooKeeper.TLS = conf
		c.warnOfKey("zk-tls-cert", files.Key)
	}
}

// systemCAs is the zk-tls-ca that stands for the certificates of the machine.
const systemCAs = "system"

// ParseServers returns the addresses in text, none for "", and what is wrong
// with them, "" when nothing is.
func ParseServers(text string) (servers []string, why string) {
	if text == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		host, port, err := net.SplitHostPort(part)
		n, portErr := strconv.ParseUint(port, 10, 16)
		switch {
		case err == nil && strings.Contains(port, "/"), err != nil && strings.Contains(part, "/"):
			return nil, "want host:port[,host:port]; a path belongs in zk-root"
		case err != nil || host == "" || portErr != nil || n == 0:
			return nil, fmt.Sprintf("%q: want host:port[,host:port], such as 10.0.0.1:2181,10.0.0.2:2181", part)
		}
		servers = append(servers, part)
	}
	return servers, ""
}

// checkZnode says what is wrong with the path of a znode; "" when nothing is.
func checkZnode(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return "want a path that begins with a slash, such as /leaf"
	case path == "/" || strings.HasSuffix(path, "/") || strings.Contains(path, "//"):
		return "want a path without empty parts, such as /leaf"
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "." || part == ".." {
			return "want a path without the parts . and .."
		}
	}
	for _, r := range path {
		if r <= ' ' || r > '~' {
			return "want printable ASCII characters and no space"
		}
	}
	return ""
}
