package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/chaos/checker"
	"github.com/leafd/leafd/test/chaos/history"
)

// clientTimeout is how long a client waits for an answer.
const clientTimeout = 3 * time.Second

// client asks one daemon for IDs, one request after the other.
type client struct {
	slot   *slot
	rnd    *rand.Rand
	stream string // empty: any
	fresh  bool   // each request has a connection of its own
	batch  bool   // several at a time, mostly

	http   loadtest.Conn
	life   *life // at the other end
	number int   // of the connection
}

// startClients starts those of every daemon: snowflake and segment IDs, one and
// many at a time, on connections that are kept and on new ones.
func (c *Cluster) startClients() {
	ctx, stop := context.WithCancel(context.WithoutCancel(c.ctx))
	c.stop = stop
	seed := c.cfg.Seed
	for _, s := range append(c.slots, c.extras...) {
		for _, stream := range []string{history.Snowflake, ""} {
			for _, batch := range []bool{false, true} {
				for _, fresh := range []bool{false, true} {
					seed++
					cl := newClient(s, rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // loads, guards nothing
					cl.stream, cl.fresh, cl.batch = stream, fresh, batch
					c.clients.Go(func() { cl.run(ctx) })
				}
			}
		}
	}
}

func newClient(s *slot, rnd *rand.Rand) *client {
	cl := &client{slot: s, rnd: rnd}
	cl.http = loadtest.Conn{Dial: cl.dial, Timeout: clientTimeout, Once: true} // each request is recorded
	return cl
}

func (cl *client) run(ctx context.Context) {
	defer cl.http.Close()
	c := cl.slot.c
	for ctx.Err() == nil {
		pause := c.cfg.Pause
		if !cl.once() {
			pause = max(pause, 20*time.Millisecond)
		}
		pause = time.Duration(float64(pause) * 2 * cl.rnd.Float64())
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// once makes a request. False where there is no process to ask, or no answer.
func (cl *client) once() bool {
	l := cl.slot.life.Load()
	if l == nil {
		return false
	}
	r := &history.Record{Kind: history.KindRequest, Process: l.number, Stream: cl.pick(), Asked: cl.count()}
	sent := now()
	r.At, r.Wall = int64(sent.Sub(cl.slot.c.began)), sent.UnixNano()
	err := cl.ask(r)
	if errors.Is(err, errNotThere) {
		return false
	}
	if !loadtest.IsDial(err) {
		r.Process, r.Conn = cl.life.number, cl.number
	}
	ok := cl.answered(r, sent, err)
	if cl.fresh || err != nil {
		cl.http.Close()
	}
	return ok
}

// answered hands the record on.
func (cl *client) answered(r *history.Record, sent time.Time, err error) bool {
	r.Took = int64(time.Since(sent))
	if err != nil {
		r.Status, r.IDs, r.Code = 0, nil, loadtest.CodeOf(err)
	}
	c := cl.slot.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordLocked(r)
	return r.Status == http.StatusOK
}

// errNotThere is of a process that changed while its port was dialled, or that was stopped and isn't there to be asked.
var errNotThere = errors.New("cluster: not the process that was meant")

// dial connects to the slot's process. The port is its daemon's, whichever process has it: l's it is
// where the life was the same before and after, for the one before has ended, and
// is taken out of its place, before the next process is started.
func (cl *client) dial(ctx context.Context) (net.Conn, error) {
	l := cl.slot.life.Load()
	if l == nil {
		return nil, errNotThere
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", cl.slot.addr)
	switch {
	case err != nil && l.Ended() && cl.slot.name == checker.Extra:
		return nil, errNotThere
	case err != nil:
		return nil, fmt.Errorf("connect: %w", err)
	case cl.slot.life.Load() != l:
		return nil, errors.Join(errNotThere, conn.Close())
	}
	c := cl.slot.c
	c.mu.Lock()
	c.conns++
	cl.number = c.conns
	c.mu.Unlock()
	cl.life = l
	return conn, nil
}

func (cl *client) pick() string {
	if cl.stream != "" {
		return cl.stream
	}
	n := cl.rnd.IntN(len(tags()))
	for _, tag := range []string{"chaos-tiny", "chaos-small", "chaos-large", "chaos-wide"} {
		if n == 0 {
			return tag
		}
		n--
	}
	return "chaos-wide"
}

// count is how many IDs to ask for: more than a millisecond has, now and then.
func (cl *client) count() int {
	n := cl.rnd.IntN(100)
	switch {
	case !cl.batch || n < 20:
		return 1
	case n < 70:
		return 2 + cl.rnd.IntN(99)
	case n < 92:
		return 100 + cl.rnd.IntN(1900)
	case n < 98:
		return 4000 + cl.rnd.IntN(1000)
	default:
		return 10000
	}
}

// ask sends the request of r and fills in the answer. An error: there was no whole
// answer, and what came of it counts for nothing.
func (cl *client) ask(r *history.Record) error {
	path := "/api/segment/get/" + r.Stream
	if r.Stream == history.Snowflake {
		path = "/api/snowflake/get/chaos"
	}
	asJSON, counted := cl.rnd.IntN(8) == 0, r.Asked > 1 || cl.rnd.IntN(2) == 0
	if counted {
		path += "?n=" + strconv.Itoa(r.Asked)
	}
	head := "GET " + path + " HTTP/1.1\r\nHost: " + cl.slot.addr + "\r\n"
	if asJSON {
		head += "Accept: application/json\r\n"
	}
	if cl.fresh {
		head += "Connection: close\r\n"
	}
	a, err := cl.http.Ask(context.Background(), []byte(head+"\r\n"))
	if err == nil {
		read(r, a)
	}
	return err
}

// read takes the answer apart. IDs of a refusal are the checker's to judge.
func read(r *history.Record, a loadtest.Answer) {
	r.Status, r.Code = a.Status, a.Code
	if a.Good {
		r.IDs = history.Runs(a.IDs)
	}
	switch ok := a.Status == http.StatusOK; {
	case ok && !a.Good:
		r.Bad = fmt.Sprintf("200 with %.200q", a.Body)
	case ok && !a.NoStore:
		r.Bad = "IDs without Cache-Control: no-store"
	case !ok && !a.Good && a.Code == "":
		r.Bad = fmt.Sprintf("status %d with %.200q: no code and message", a.Status, a.Body)
	}
}

// now is time.Now, read again where the thread was held up between the wall clock and the
// monotonic one: checks of the IDs' times rest on both.
func now() time.Time {
	for {
		a, b := time.Now(), time.Now()
		if off := b.Sub(a) - b.Round(0).Sub(a.Round(0)); off.Abs() < time.Millisecond {
			return b
		}
	}
}
