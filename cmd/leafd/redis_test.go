package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/test/certtest"
)

// dialRedis opens a connection, with TLS where conf says how, and returns what makes a call over it, and
// returns the first line of the answer. That the connection breaks is an answer, too.
func dialRedis(t *testing.T, network, address string, conf *tls.Config) func(call string) string {
	t.Helper()
	conn, err := net.Dial(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if conf != nil {
		conf.ServerName = "127.0.0.1"
		conn = tls.Client(conn, conf)
	}
	answers := bufio.NewReader(conn)
	return func(call string) string {
		words := strings.Fields(call)
		command := fmt.Sprintf("*%d\r\n", len(words))
		for _, word := range words {
			command += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
		}
		if _, err := io.WriteString(conn, command); err != nil {
			return err.Error()
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(answer)
	}
}

const incrTag, anID = "INCR leaf-segment-test", `^:\d+$`

// A unix socket, and TCP with TLS and certificates of clients; the certificate is followed.
func TestRedisListeners(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	path := filepath.Join(m.dir, "redis.sock")
	l := m.ready("--listen-redis", "unix:"+path, tune("SegmentWait", "10s"))
	require.Equal(t, ":1", dialRedis(t, "unix", path, nil)(incrTag))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660), info.Mode().Perm())
	require.Equal(t, cli.ExitOK, l.stop())
	require.NoFileExists(t, path)

	ca := certtest.New(t, "ca")
	own, alice := ca.Issue(t, "leafd"), ca.Issue(t, "alice")
	roots := certtest.Write(t, m.dir, "ca.crt", ca.PEM)
	address := freeAddress(t)
	l = m.start("--listen-redis", address, tune("SegmentWait", "10s"), "--tls-cert", certtest.Write(t, m.dir, "tls.crt", own.Cert), "--tls-key", certtest.Write(t, m.dir, "tls.key", own.Key), "--tls-client-ca", roots)
	l.awaitLog("issuing snowflake IDs")
	withTLS := func(conf *tls.Config) string { return dialRedis(t, "tcp", address, conf)(incrTag) }
	require.Eventually(t, func() bool { // its start may not have opened the table yet
		return regexp.MustCompile(anID).MatchString(withTLS(ca.Client(t, alice)))
	}, eventually, tick)
	require.NotRegexp(t, anID, withTLS(ca.Client(t)))
	require.NotRegexp(t, anID, withTLS(nil))
	second := ca.Issue(t, "second")
	certtest.Write(t, m.dir, "tls.key", second.Key)
	certtest.Write(t, m.dir, "tls.crt", second.Cert)
	l.awaitLog("are in use", `"subject":"CN=second"`)
	require.Regexp(t, anID, withTLS(ca.Client(t, alice)))
	require.Equal(t, cli.ExitOK, l.stop())
}

// The sockets of systemd stand in for those of the settings, and make an admin surface and a Redis port without a setting. Clients that
// come while the daemon restarts wait for it, and a stop leaves the file of a unix socket: it is systemd's.
func TestInheritedSockets(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	var unit socketUnit
	admin := filepath.Join(m.dir, "admin.sock")
	passed, err := net.ListenUnix("unix", &net.UnixAddr{Name: admin, Net: "unix"})
	require.NoError(t, err)
	defer func() { _ = passed.Close() }()
	file, err := passed.File()
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	unit.add(t, conn.Redis.String(), "tcp", "127.0.0.1:0")
	ln, err := net.FileListener(unit.files[0])
	require.NoError(t, err)
	address := ln.Addr().String()
	require.NoError(t, ln.Close())
	unit.names, unit.files = append(unit.names, conn.Admin.String()), append(unit.files, file)
	m.prepare = unit.pass
	l := m.ready(tune("SegmentWait", "10s"))
	require.Equal(t, ":1", dialRedis(t, "tcp", address, nil)(incrTag))
	require.Equal(t, 404, l.mustGet("/metrics").status)
	leafd(t, "id", "next", "--url", "unix:"+admin).Failed(t, cli.ExitFailure, "not_found")
	require.Equal(t, cli.ExitOK, l.stop())
	require.FileExists(t, admin)
	waiting, answered := dialRedis(t, "tcp", address, nil), make(chan string, 1)
	go func() { answered <- waiting(incrTag) }()
	l = m.start(tune("SegmentWait", "10s"))
	answer := <-answered
	require.Regexp(t, anID, answer)
	require.NotEqual(t, ":1", answer)
	require.Equal(t, cli.ExitOK, l.stop())
}
