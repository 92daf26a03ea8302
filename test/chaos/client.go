package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
)

// clientTimeout is how long a client waits for an answer.
const clientTimeout = 3 * time.Second

// mostRefused is how many requests in a row a daemon that no fault hits may refuse, or not answer: a second's, as they are asked.
const mostRefused = 500

// snowflake is the stream of the snowflake IDs; no tag has this name.
const snowflake = ":snowflake"

// client asks one daemon for IDs, one request after the other.
type client struct {
	d    *daemon
	http loadtest.Conn
}

// startClients starts those of a daemon until ctx is done: snowflake and segment IDs, one and many at a time, on
// connections that are kept and on new ones.
func (d *daemon) startClients(ctx context.Context) {
	for n := range 8 {
		cl, rnd := newClient(d), newDice(d.c.o.seed+uint64(n))
		d.c.asking.Go(func() {
			defer cl.http.Close()
			for ctx.Err() == nil {
				pause := 20 * time.Millisecond
				if cl.ask(pick(rnd, n&1 != 0), count(rnd, n&2 != 0), n&4 != 0) == nil {
					pause /= 2
				}
				time.Sleep(time.Duration(float64(pause) * 2 * rnd.Float64()))
			}
		})
	}
}

func newClient(d *daemon) *client {
	cl := &client{d: d}
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", d.addr) }
	cl.http = loadtest.Conn{Dial: dial, Timeout: clientTimeout, Once: true} // each failure counts
	return cl
}

func pick(rnd *rand.Rand, segment bool) string {
	if !segment {
		return snowflake
	}
	return [...]string{"chaos-tiny", "chaos-small", "chaos-wide"}[rnd.IntN(len(tags()))]
}

// count returns how many IDs to ask for: more than a millisecond has, now and then.
func count(rnd *rand.Rand, batch bool) int {
	switch n := rnd.IntN(100); {
	case !batch || n < 20:
		return 1
	case n < 70:
		return 2 + rnd.IntN(99)
	case n < 92:
		return 100 + rnd.IntN(1900)
	case n < 98:
		return 4000 + rnd.IntN(1000)
	default:
		return 10000
	}
}

// errRefused is returned for an answer without IDs.
var errRefused = errors.New("refused")

// ask makes a request, and has the IDs of the answer checked.
func (cl *client) ask(stream string, n int, fresh bool) error {
	c, l := cl.d.c, cl.d.now.Load()
	if l == nil || cl.d.quiet.Load() {
		return errRefused
	}
	path, head, mode := "segment/get/"+stream, "", &cl.d.refused[1]
	if stream == snowflake {
		path, mode = "snowflake/get/chaos", &cl.d.refused[0]
	}
	if fresh {
		head = "Connection: close\r\n"
	}
	a, err := cl.http.Ask(context.Background(), fmt.Appendf(nil, "GET /api/%s?n=%d HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, n, cl.d.addr, head))
	if err == nil && a.Good { // those of a refusal, too
		c.mu.Lock()
		c.checker.Add(stream, a.IDs, l.number)
		c.mu.Unlock()
	}
	if err == nil && (a.Status != http.StatusOK || len(a.IDs) != n) {
		err = fmt.Errorf("%w: status %d, code %s, %d IDs of %d", errRefused, a.Status, a.Code, len(a.IDs), n)
	}
	if fresh || err != nil {
		cl.http.Close()
	}
	switch {
	case err == nil || cl.d.hit.Load():
		mode.Store(0)
	case mode.Add(1) == mostRefused:
		_ = c.breaks("%s, which no fault hits, doesn't serve %s: %w; %s", cl.d.name, stream, err, cl.d.lastLine()) // it ends the run
	}
	return err
}
