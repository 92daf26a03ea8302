package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/leafd/leafd/zkreg"
)

// fillZooKeeper checks the settings of ZooKeeper. Nothing is connected to: a
// server that is down is no bad setting.
func (c *Config) fillZooKeeper(v *values) {
	c.ZKSessionTimeout, c.ReclaimAfter = v.duration("zk-session-timeout"), v.duration("reclaim-after")
	if v.good("zk") {
		servers, why := parseServers(v.text("zk"))
		if why != "" {
			v.refuse("zk", why)
		}
		c.ZK = servers
	}
	for _, path := range []struct {
		name string
		to   *string
	}{{"zk-root", &c.ZKRoot}, {"zk-forever-path", &c.ZKForeverPath}} {
		*path.to = v.text(path.name)
		if !v.good(path.name) || path.name == "zk-forever-path" && *path.to == "" {
			continue
		}
		if why := checkZnode(*path.to); why != "" {
			v.refuse(path.name, why)
		}
	}
	c.fillSecurity(v)
}

// fillSecurity reads the files of digest and TLS.
func (c *Config) fillSecurity(v *values) {
	if path := v.text("zk-auth-file"); path != "" {
		credentials, warning, err := zkreg.ParseCredentials(path)
		if err != nil {
			v.refuse("zk-auth-file", err.Error())
		}
		if warning != "" {
			c.Warnings = append(c.Warnings, warning)
		}
		c.ZKAuth = credentials
	}
	files := zkreg.TLSFiles{CA: v.text("zk-tls-ca"), Cert: v.text("zk-tls-cert"), Key: v.text("zk-tls-key")}
	switch {
	case files.Cert != "" && files.Key == "":
		v.refuse("zk-tls-cert", "want zk-tls-key with it")
	case files.Key != "" && files.Cert == "":
		v.refuse("zk-tls-key", "want zk-tls-cert with it")
	case files.CA == "" && files.Cert != "":
		v.refuse("zk-tls-cert", "want zk-tls-ca with it: without, the connection is plain")
	case files.CA != "":
		if files.CA == systemCAs {
			files.CA = ""
		}
		conf, err := zkreg.NewTLS(files)
		if err != nil {
			v.refuse("zk-tls-ca", err.Error())
		}
		c.ZKTLS = conf
	}
}

// systemCAs is the zk-tls-ca that stands for the certificates of the machine.
const systemCAs = "system"

// parseServers returns the addresses in text, none for "", and what is wrong
// with them, "" when nothing is.
func parseServers(text string) (servers []string, why string) {
	if text == "" {
		return nil, ""
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		host, port, err := net.SplitHostPort(part)
		n, portErr := strconv.ParseUint(port, 10, 16)
		switch {
		case err == nil && strings.Contains(port, "/"), err != nil && strings.Contains(part, "/"):
			return nil, "want host:port[,host:port]; a path belongs into zk-root"
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
