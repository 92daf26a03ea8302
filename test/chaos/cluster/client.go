package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

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

	conn   net.Conn
	reader *bufio.Reader
	life   *life // at the other end of conn
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
					cl := &client{slot: s, rnd: rand.New(rand.NewPCG(seed, 1)), stream: stream, fresh: fresh, batch: batch} //nolint:gosec // loads, guards nothing
					c.clients.Go(func() { cl.run(ctx) })
				}
			}
		}
	}
}

func (cl *client) run(ctx context.Context) {
	defer cl.close()
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
	if cl.conn == nil {
		if err := cl.dial(l); errors.Is(err, errChanged) {
			return false
		} else if err != nil {
			if l.Ended() && cl.slot.name == checker.Extra {
				return false // it is not there to be asked
			}
			return cl.answered(r, sent, fmt.Errorf("connect: %w", err))
		}
	}
	r.Process, r.Conn = cl.life.number, cl.number
	err := cl.ask(r)
	ok := cl.answered(r, sent, err)
	if cl.fresh || err != nil {
		cl.close()
	}
	return ok
}

// answered hands the record on.
func (cl *client) answered(r *history.Record, sent time.Time, err error) bool {
	r.Took = int64(time.Since(sent))
	if err != nil {
		r.Status, r.IDs, r.Code = 0, nil, brief(err)
	}
	c := cl.slot.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordLocked(r)
	return r.Status == http.StatusOK
}

func brief(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed"
	default:
		return "connection"
	}
}

// errChanged tells that the process changed while its port was dialled.
var errChanged = errors.New("cluster: another process by now")

// dial connects to l. The port is its daemon's, whichever process has it: l's it is
// where the life was the same before and after, for the one before has ended, and
// is taken out of its place, before the next process is started.
func (cl *client) dial(l *life) error {
	conn, err := net.DialTimeout("tcp", cl.slot.addr, clientTimeout) //nolint:noctx // bounded
	if err != nil {
		return err
	}
	if cl.slot.life.Load() != l {
		return errors.Join(errChanged, conn.Close())
	}
	c := cl.slot.c
	c.mu.Lock()
	c.conns++
	cl.number = c.conns
	c.mu.Unlock()
	cl.conn, cl.life = conn, l
	cl.reader = bufio.NewReaderSize(conn, 1<<15)
	return nil
}

func (cl *client) close() {
	if cl.conn != nil {
		_ = cl.conn.Close() // nothing of it is wanted any more
		cl.conn = nil
	}
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
	if err := cl.conn.SetDeadline(time.Now().Add(clientTimeout)); err != nil {
		return err
	}
	if _, err := io.WriteString(cl.conn, head+"\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(cl.reader, nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return err
	}
	if res.Close {
		defer cl.close()
	}
	r.Status = res.StatusCode
	read(r, res.Header, body, asJSON && counted) // else it is the bare number
	return nil
}

// read takes the answer apart.
func read(r *history.Record, header http.Header, body []byte, asJSON bool) {
	ids, err := parse(body, asJSON)
	if r.Status == http.StatusOK {
		switch {
		case err != nil:
			r.Bad = fmt.Sprintf("200 with %.200q: %v", body, err)
		case header.Get("Cache-Control") != "no-store":
			r.Bad = "IDs without Cache-Control: no-store"
		}
		r.IDs = history.Runs(ids)
		return
	}
	var refusal struct{ Code, Message string }
	switch {
	case err == nil:
		r.IDs = history.Runs(ids) // the checker's to judge
	case json.Unmarshal(body, &refusal) != nil || refusal.Code == "" || refusal.Message == "":
		r.Bad = fmt.Sprintf("status %d with %.200q: no code and message", r.Status, body)
	default:
		r.Code = refusal.Code
	}
}

func parse(body []byte, asJSON bool) ([]int64, error) {
	var texts []string
	if asJSON {
		var list struct {
			IDs []string `json:"ids"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, err
		}
		texts = list.IDs
	} else {
		for line := range bytes.Lines(body) {
			texts = append(texts, string(bytes.TrimSuffix(line, []byte("\n"))))
		}
	}
	if len(texts) == 0 {
		return nil, errors.New("no ID")
	}
	ids := make([]int64, 0, len(texts))
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("%q is no ID", text)
		}
		ids = append(ids, id)
	}
	return ids, nil
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
