package peerclock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
)

// FuzzExchange: any answer of a peer over its socket is an error of ours,
// short and harmless to print, or the clock that is in it.
func FuzzExchange(f *testing.F) {
	const body = `{"node":"a:8080","owner":"0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11","timestamp":1700000000000}`
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n" + body, "HTTP/1.0 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n\r\n" + body,
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5a\r\n" + body + "\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>", "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n" + body, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}", "",
		"\x15\x03\x01\x00\x02\x02\x46", "HTTP/1.1 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("\x1b[2J", 2000) + "\r\n\r\n", "SSH-2.0-x\r\n",
	} {
		f.Add([]byte(s))
	}
	var answer atomic.Pointer[[]byte]
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			// In plain HTTP or, where that failed, a greeting of TLS: one packet.
			_, _ = nc.Read(make([]byte, 64<<10))
			_, _ = nc.Write(*answer.Load()) // the client may have had enough
			_ = nc.Close()
		}
	}()
	f.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	c, err := New(Config{Clock: clock.System(), Timeout: 10 * time.Second, Own: netip.MustParseAddr("127.0.0.1")})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, sent []byte) {
		answer.Store(&sent)
		before := clock.MillisOf(time.Now())
		s := c.Probe(context.Background(), []string{ln.Addr().String()})[0]
		after := clock.MillisOf(time.Now())
		if s.Err != nil {
			require.True(t, errors.Is(s.Err, ErrAnswer) || errors.Is(s.Err, ErrUnreachable) || errors.Is(s.Err, ErrStepped), s.Err)
			require.Less(t, len(s.Err.Error()), 600)
			require.Equal(t, -1, strings.IndexFunc(s.Err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", s.Err)
			require.Zero(t, s.Offset)
			return
		}
		require.True(t, isName(s.Node) && isName(s.Owner) && isName(s.Cluster) && s.WorkerID >= 0)
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), nil)
		if err != nil {
			return // read more strictly there
		}
		defer res.Body.Close()
		if res.StatusCode < 200 {
			return // what follows on it was read
		}
		require.Equal(t, http.StatusOK, res.StatusCode)
		text, err := io.ReadAll(res.Body)
		if err != nil {
			return
		}
		var told struct{ Timestamp clock.Millis }
		require.NoError(t, json.Unmarshal(text, &told))
		if n := told.Timestamp; !plausible(n) {
			return // spelt more than once, or in another case
		}
		least, most := told.Timestamp-after-1, told.Timestamp-before+2
		require.GreaterOrEqual(t, s.Offset, time.Duration(least)*time.Millisecond)
		require.LessOrEqual(t, s.Offset, time.Duration(most)*time.Millisecond+s.RTT)
	})
}

// FuzzAddress: an address that is asked is one host and one port, and can't break out
// of the Host header.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"10.0.0.5:8080", "[::1]:1", "[fe80::1%eth0]:80", "host:80", "host.:80", "a_b:80", ":80", "host:0", "host:65536", "host:+1", "h:080", "host", "[::1]", "a b:1", "a\r\nX: y:1", "é:1", "1.2.3:1", "0x7f.1:1", "a@b:1", "[::ffff:1.2.3.4]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		peers := Client{cfg: Config{Own: netip.MustParseAddr("127.0.0.1")}}
		if got, err := peers.checkAddress(address); err == nil {
			peer, err := netip.ParseAddrPort(got)
			require.NoError(t, err)
			require.NotZero(t, peer.Port())
		}
		got, err := (&Client{cfg: Config{Named: true}}).checkAddress(address)
		if err != nil {
			require.ErrorIs(t, err, ErrAddress)
			_, err := peers.checkAddress(address)
			require.Error(t, err)
			require.Equal(t, -1, strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }))
			return
		}
		host, port, err := net.SplitHostPort(got)
		require.NoError(t, err)
		require.Regexp(t, `^0*[1-9][0-9]*$`, port)
		if ip, err := netip.ParseAddr(host); err == nil {
			require.Empty(t, ip.Zone())
		} else {
			require.Regexp(t, `^[a-zA-Z0-9._-]{1,253}$`, host)
		}
		_, asked, err := net.SplitHostPort(address)
		require.NoError(t, err)
		require.Equal(t, asked, port)
	})
}
