package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

const (
	// malformedVariable says how many malformed requests are sent, seedVariable what
	// they are made from.
	malformedVariable = "LEAFDTEST_MALFORMED"
	seedVariable      = "LEAFDTEST_SEED"

	malformedClients = 32
	slowClients      = 24
	// patience is how long a client waits for the daemon; nothing here should take it.
	patience = 30 * time.Second
	// growth is what the daemon's memory may grow by after it has been warmed up: the
	// connections open at once, and what the collector lets stand.
	growth = 96 << 20
)

// abuse is the malformed requests and what came of them.
type abuse struct {
	t    *testing.T
	seed uint64
	want int64 // malformed requests

	next      atomic.Int64 // number of the next conversation
	sent      atomic.Int64 // malformed requests
	answers   atomic.Int64 // to malformed requests
	snowflake atomic.Int64 // IDs received by good requests
	segment   atomic.Int64 // the same, of the tag good
	failed    atomic.Bool
}

// A hundred thousand malformed requests from raw sockets, over TCP and the unix
// sockets of both surfaces. They take no ID, leave nothing behind, and each is
// answered as leafd answers, or its connection closed.
func TestMalformedRequests(t *testing.T) {
	m := newMachine(t)
	public, admin := filepath.Join(m.dir, "leafd.sock"), filepath.Join(m.dir, "admin.sock")
	token := clitest.WriteFile(t, "token", clitest.AdminToken+"\n")
	m.socket = public
	l := m.ready("--admin-listen", "unix:"+admin, "--admin-token-file", token, tune("ReadTimeout", "2s"), "--log-level", "debug")
	operator := &outsider{t: t, pid: l.Pid(), socket: admin}
	for _, tag := range []string{"good", "victim"} {
		made, err := sendBy(t, overUnix(admin), "POST", "http://localhost/api/segments", clitest.AdminToken, `{"tag":"`+tag+`","step":"1000000"}`)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, made.status)
		require.Equal(t, http.StatusOK, l.awaitStatus("/api/segment/get/"+tag, http.StatusOK).status)
	}

	a := &abuse{t: t, seed: numberOf(t, seedVariable, 1), want: int64(numberOf(t, malformedVariable, malformedRequests))}
	t.Logf("%s=%d %s=%d", seedVariable, a.seed, malformedVariable, a.want)
	routes := []route{{"tcp", l.addr, author.public}, {"unix", public, author.public}, {"unix", admin, author.admin}}
	a.run(routes, min(a.want, 3000)) // so that what is only made once is there already
	before := operator.rest()
	taken := before.minus(a)
	a.run(routes, a.want)
	a.dribble(routes)

	var after condition
	require.Eventually(t, func() bool {
		after = operator.look()
		return after.connections == 0 && after.descriptors <= before.descriptors && after.goroutines <= before.goroutines
	}, patience, 50*time.Millisecond, "before %+v, after %+v", &before, &after)
	require.Zero(t, after.panics)
	require.NotContains(t, l.Log(), "panic")
	require.Equal(t, before.tags, after.tags, "a malformed request changed what is in memory or in the table")
	require.Equal(t, taken, after.minus(a), "IDs went where no good request is")
	require.Less(t, after.memory, before.memory+growth)
	require.GreaterOrEqual(t, a.sent.Load(), a.want)
	require.Positive(t, a.snowflake.Load())
	require.Positive(t, a.segment.Load())
	t.Logf("%d malformed requests, %d answers to them; %d connections; memory %d to %d MiB; %d goroutines; %d descriptors",
		a.sent.Load(), a.answers.Load(), a.next.Load(), before.memory>>20, after.memory>>20, after.goroutines, after.descriptors)
	require.Equal(t, http.StatusOK, l.mustGet("/readyz").status)
	require.Equal(t, cli.ExitOK, l.stop())
}

func numberOf(t *testing.T, variable string, def uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 62)
	require.NoError(t, err, variable)
	return n
}

// route is where conversations are held, and what writes them.
type route struct {
	network, address string
	script           func(author) conversation
}

// run holds conversations until so many malformed requests were sent.
func (a *abuse) run(routes []route, until int64) {
	var clients sync.WaitGroup
	for range malformedClients {
		clients.Go(func() {
			for a.sent.Load() < until && !a.failed.Load() {
				a.converse(int(a.next.Add(1)), routes)
			}
		})
	}
	clients.Wait()
	if a.failed.Load() {
		a.t.FailNow()
	}
}

// converse holds conversation number.
func (a *abuse) converse(number int, routes []route) {
	where := routes[number%2]
	if number%8 == 0 {
		where = routes[2]
	}
	c := where.script(newAuthor(a.seed, number))
	if err := a.hold(c, where); err != nil {
		if a.failed.CompareAndSwap(false, true) {
			a.t.Errorf("conversation %d of seed %d, over %s: %v\ngood: %q, piped: %q\nbad: %.3000q", number, a.seed, where.network, err, c.good, c.piped, c.bad)
		}
	}
}

// hold holds one conversation.
func (a *abuse) hold(c conversation, where route) (err error) {
	defer a.sent.Add(int64(c.count))
	nc, err := net.Dial(where.network, where.address)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }()
	if tcp, ok := nc.(*net.TCPConn); ok && c.end != closeUnread {
		// Closed by a reset, it leaves no port behind in TIME_WAIT.
		if err := tcp.SetLinger(0); err != nil {
			return err
		}
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	r := bufio.NewReader(nc)
	for _, target := range c.good {
		if _, err := io.WriteString(nc, goodRequest(target)); err != nil {
			return err
		}
		if err := a.served(r, target); err != nil {
			return err
		}
	}
	var all bytes.Buffer
	for _, target := range c.piped {
		all.WriteString(goodRequest(target))
	}
	all.Write(c.bad)
	if _, err := nc.Write(all.Bytes()); err != nil && !gone(err) {
		return err
	}
	if c.end != readAll {
		return nil
	}
	if err := nc.(interface{ CloseWrite() error }).CloseWrite(); err != nil && !gone(err) {
		return err
	}
	for _, target := range c.piped {
		if err := a.served(r, target); err != nil {
			return err
		}
	}
	return a.refused(r, c.heads)
}

// gone tells whether err says that the daemon has closed the connection.
func gone(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ENOTCONN)
}

// served reads the answer to a good request.
func (a *abuse) served(r *bufio.Reader, target string) error {
	status, _, body, err := nextAnswer(r, http.MethodGet)
	if err != nil {
		return fmt.Errorf("good request %s: %w", target, err)
	}
	list, err := ids(string(body))
	if err != nil || status != http.StatusOK || len(list) != goodTargets()[target] {
		return fmt.Errorf("good request %s got %d %q: %w", target, status, body, err)
	}
	if strings.Contains(target, "snowflake") {
		a.snowflake.Add(int64(len(list)))
	} else {
		a.segment.Add(int64(len(list)))
	}
	return nil
}

// errorCode is what a code looks like.
var errorCode = regexp.MustCompile(`^[a-z_]+$`)

// refused reads what is left of a connection: answers of leafd, and no IDs.
func (a *abuse) refused(r *bufio.Reader, heads int) error {
	for i := 0; ; i++ {
		if _, err := r.Peek(1); err != nil {
			if errors.Is(err, io.EOF) || gone(err) {
				return nil
			}
			return fmt.Errorf("answer %d: %w", i, err)
		}
		method := http.MethodGet
		if i < heads {
			method = http.MethodHead
		}
		status, header, body, err := nextAnswer(r, method)
		if gone(err) {
			return nil // closed while more was on its way
		}
		if err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
		a.answers.Add(1)
		if status < 300 {
			if list, err := ids(string(body)); err == nil && len(list) > 0 || strings.Contains(string(body), `"ids"`) {
				return fmt.Errorf("answer %d to what is no good request has IDs: %d %q", i, status, body)
			}
			continue
		}
		var e struct{ Code, Message string }
		switch {
		case status < 400 || status > 599 || header.Get("Cache-Control") != "no-store":
			return fmt.Errorf("answer %d has status %d and %q", i, status, header)
		case method == http.MethodHead && len(body) == 0:
		case json.Unmarshal(body, &e) != nil || !errorCode.MatchString(e.Code) || e.Message == "" || header.Get("Content-Type") != "application/json":
			return fmt.Errorf("answer %d is %d, and no error as leafd writes them: %q %q", i, status, header, body)
		case status == http.StatusInternalServerError:
			return fmt.Errorf("answer %d: %q", i, body)
		}
	}
}

// nextAnswer reads one response, which has to say how long it is.
func nextAnswer(r *bufio.Reader, method string) (status int, header http.Header, body []byte, err error) {
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return 0, nil, nil, err
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		return 0, nil, nil, err
	}
	if _, err := http.ParseTime(res.Header.Get("Date")); err != nil {
		return 0, nil, nil, fmt.Errorf("the Date of an answer: %w: %q", err, res.Header)
	}
	if res.ContentLength < 0 && res.StatusCode >= 200 && res.StatusCode != http.StatusNoContent && method != http.MethodHead {
		return 0, nil, nil, fmt.Errorf("an answer without a length: %d %q", res.StatusCode, res.Header)
	}
	return res.StatusCode, res.Header, body, nil
}

// dribble has a few clients that send a byte now and then: the daemon has to close
// each.
func (a *abuse) dribble(routes []route) {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	var clients sync.WaitGroup
	for i := range slowClients {
		where := routes[i%len(routes)]
		text := goodRequest("/api/segment/get/victim")[:10+i]
		clients.Go(func() {
			nc, err := net.Dial(where.network, where.address)
			if err != nil {
				a.t.Error(err)
				return
			}
			defer func() { _ = nc.Close() }()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				_, _ = io.Copy(io.Discard, nc) // until the daemon closes, after any answers
			}()
			for j := 0; ; j++ {
				_, _ = nc.Write([]byte{text[min(j, len(text)-1)]})
				select {
				case <-closed:
					return
				case <-ctx.Done():
					a.t.Errorf("a request of one byte each 200 ms kept its connection for %s", patience)
					_ = nc.Close()
					<-closed
					return
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	clients.Wait()
}
