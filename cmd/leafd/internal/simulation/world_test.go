package simulation_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/segmenttest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

const (
	few         = "41+3+2"  // four IDs a millisecond, so that clients use all, and few worker IDs, so that they come back
	lending     = "41+3+12" // where slices are lent, for which there have to be 4,096
	threshold   = worker.DefaultClockThreshold
	sessionTime = 2 * time.Second
	lease       = time.Minute
	report      = 2 * time.Second
	lead        = 3 * time.Second
	margin      = 2 * threshold
	ensemble    = "10.9.0.1:2181"
	tags        = 30 // in use for ten seconds each, and for ten more a little later: while a tag is new its ranges are small, and fetched often
	healTime    = 2 * time.Minute
	longestLend = 4 * time.Second
)

// What a host can be cut off from.
const (
	zooKeeper = iota
	database
	peers
	networks
)

// world is a cluster of hosts, its ZooKeeper, its table, and its clients. What changes it is done one
// after the other, by the goroutine that tells the story.
type world struct {
	t        testing.TB
	began    time.Time // the story, of which the first fault comes a while later
	layout   snowflake.Layout
	clk      *clocktest.Bubble // the right time
	zk       *sessiontest.Memory
	table    *segmenttest.Store
	admin    *zkreg.Directory
	temp     string
	hosts    []*host // all, also those that are gone
	events   chan func()
	running  sync.WaitGroup
	over     atomic.Bool
	borrowed atomic.Int64  // slices that were asked for
	loses    bool          // ZooKeeper may lose data in this story; else the table may, and clocks be far off
	lend     time.Duration // 0: nothing is lent
	bits     string
	backups  []*sessiontest.Backup
	tables   []func()  // each sets the table back
	healing  bool      // no fault happens any more
	tainted  bool      // what was used without ZooKeeper is known to none that is left
	jumped   time.Time // until then no clock jumps by hours
	calm     time.Time // until then nothing is cut off

	mu        sync.Mutex
	listeners map[string]*listener    // mu protects; by address
	issued    [kinds]map[int64]string // mu protects; the host of each ID
	lent      map[slot][]lent         // mu protects
	wrong     string                  // mu protects; the first violation
}

// host is a machine with a daemon.
type host struct {
	w       *world
	name    string
	address string
	clk     *clocktest.Bubble
	boot    string
	flags   map[string]string
	data    *data
	process atomic.Pointer[process]
	up      bool // a daemon is to run there
	extra   bool // it is gone when the story ends
	off     [networks]atomic.Bool
	hit     atomic.Bool  // by a fault: it may refuse
	hot     atomic.Int64 // until then, of the world's monotonic clock, its clients ask for every millisecond
	raised  time.Time    // by then what it used without ZooKeeper is known there
	pinned  time.Time    // until then nothing is to cut it off
	forced  time.Time    // until then its process alone knows that its worker ID was released while it ran
}

// data is a data directory, in a file system that goes with it.
type data struct {
	path  string
	home  string // its ID; "": not known yet; w.mu protects
	marks *segmenttest.HighWater
}

func newWorld(t testing.TB, s story) *world {
	clk := clocktest.NewBubble(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	w := &world{
		t: t, began: time.Now().Add(15 * time.Second), clk: clk, zk: sessiontest.NewMemory(clk), table: segmenttest.NewStore(), events: make(chan func(), 1000), loses: s.loses,
		bits: few, listeners: map[string]*listener{}, issued: [kinds]map[int64]string{{}, {}}, lent: map[slot][]lent{},
	}
	if s.loses {
		w.began = w.began.Add(50 * time.Second) // in a root a minute old new daemons settle
	}
	if s.lends {
		w.bits, w.lend = lending, longestLend
	}
	var err error
	w.layout, err = snowflake.ParseLayout(w.bits, snowflake.DefaultEpoch)
	require.NoError(t, err)
	w.temp, err = os.MkdirTemp(memoryDisk(), "leafd")
	require.NoError(t, err)
	w.admin, err = zkreg.OpenDirectory(zkreg.Config{Servers: []string{ensemble}, Layout: w.layout, Lease: lease, Threshold: threshold, Clock: clk, Dial: w.zk.Open, SessionTimeout: sessionTime})
	require.NoError(t, err)
	_, err = w.admin.Init(context.Background(), worker.YoungLease, w.lend, true)
	require.NoError(t, err)
	for i := range tags {
		w.table.Set("k"+strconv.Itoa(i), 1, 100)
	}
	for range 4 {
		w.newHost().begin()
	}
	return w
}

// memoryDisk is a folder on a file system in memory, where the machine has one.
func memoryDisk() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

func (w *world) newHost() *host {
	n := len(w.hosts) + 1
	h := &host{w: w, name: fmt.Sprintf("h%d", n), address: fmt.Sprintf("10.0.0.%d:8080", n), clk: clocktest.NewBubble(w.clk.Millis().Time()), data: w.newData()}
	h.boot = h.name
	h.flags = map[string]string{
		"node": h.name, "listen": h.address, "zk": ensemble, "mysql": "leafd@tcp(10.9.0.2:3306)/leaf", "layout": w.bits, "lend": w.lend.String(), "lease": lease.String(),
		"clock-threshold": threshold.String(), "startup-timeout": "30s", "zk-session-timeout": sessionTime.String(), "data-dir": h.data.path, "release-on-stop": strconv.FormatBool(n%2 == 0),
	}
	w.hosts = append(w.hosts, h)
	return h
}

func (w *world) newData() *data {
	d, err := os.MkdirTemp(w.temp, "data")
	require.NoError(w.t, err)
	return &data{path: d, marks: segmenttest.NewHighWater()}
}

// copyOf returns a copy of d as it is now; a clone of the disk passes for the original.
func (w *world) copyOf(d *data, clone bool) *data {
	c := w.newData()
	c.marks = d.marks.Copy()
	for name, content := range d.files() {
		require.NoError(w.t, os.WriteFile(filepath.Join(c.path, name), content, 0o600))
	}
	if clone {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.home = d.home
	}
	return c
}

// files are those of package cache, but for what is under way.
func (d *data) files() map[string][]byte {
	all := map[string][]byte{}
	for _, name := range []string{"leafd.lock", "worker.json", "worker.saved"} {
		if content, err := os.ReadFile(filepath.Join(d.path, name)); err == nil {
			all[name] = content
		}
	}
	return all
}

// begin has a daemon run at h, and clients ask it.
func (h *host) begin() {
	h.up = true
	h.start()
	h.w.running.Go(h.clients)
}

// after has f done when d has passed, unless all is healed by then.
func (w *world) after(d time.Duration, f func()) {
	w.always(d, func() {
		if !w.healing {
			f()
		}
	})
}

// always has f done when d has passed.
func (w *world) always(d time.Duration, f func()) {
	time.AfterFunc(d, func() {
		if !w.over.Load() {
			w.events <- f
		}
	})
}

// pass lets d pass, and does what is due meanwhile.
func (w *world) pass(d time.Duration) {
	for timer := time.NewTimer(d); ; {
		select {
		case f := <-w.events:
			f()
		case <-timer.C:
			return
		}
	}
}

func (w *world) fails(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("%6.1f s  ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	}
}

func (w *world) failed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong
}

// clients ask the daemon at h, at most moments; for every millisecond while that is hot.
func (h *host) clients() {
	var c client
	defer c.close()
	var asked time.Time
	var began *process // that has answered, and since when it is hot
	for !h.w.over.Load() && h.w.failed() == "" {
		p := h.process.Load()
		hot := h.w.clk.Mono() < time.Duration(h.hot.Load())
		n, pause := 4, 60*time.Millisecond
		switch {
		case hot && h.w.lend > 0:
			n, pause = 40, 10*time.Millisecond
			h.w.borrow(&c, h, p)
		case hot:
			n, pause = 40, 0
		}
		err := c.ids(h, p, snowflakes, n)
		if err == nil && began != p {
			began = p
			h.heat(1500 * time.Millisecond)
		}
		served := p.served.Swap(p.served.Load() || err == nil)
		if err != nil && served && !h.hit.Load() && !p.dead.Load() {
			h.w.fails("%s refuses, and no fault has hit it: %s\n  %s", h.name, err, p.lines())
		}
		if now := time.Now(); now.Sub(asked) > 50*time.Millisecond {
			asked = now
			_ = c.ids(h, p, segments, 10)
		}
		if err != nil {
			pause = 20 * time.Millisecond
		}
		time.Sleep(pause)
	}
}

// heat has the clients ask for every millisecond, from now on for d.
func (h *host) heat(d time.Duration) {
	h.hot.Store(max(h.hot.Load(), int64(h.w.clk.Mono()+d)))
}

// client has a connection to a process.
type client struct {
	asked int64 // for IDs
	p     *process
	conn  io.ReadWriteCloser
	in    *bufio.Reader
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ids asks for IDs, and notes each.
func (c *client) ids(h *host, p *process, kind, n int) error {
	c.asked++
	tag := (int64(h.w.clk.Mono()/(10*time.Second)) + tags - c.asked%2*2) % tags
	body, err := c.ask(h, p, fmt.Sprintf("GET /api/%s/get/k%d?n=%d", [...]string{"snowflake", "segment"}[kind], tag, n))
	for line := range strings.Lines(string(body)) {
		id, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return err
		}
		if kind == segments {
			id += tag << 48
		}
		h.w.got(kind, h, id)
	}
	return err
}

// ask returns the body of an answer with status 200.
func (c *client) ask(h *host, p *process, request string) (body []byte, err error) {
	if c.p != p {
		c.close()
		c.p = p
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.conn == nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		nc, err := h.w.dial(ctx, h.address, nil)
		if err != nil {
			return nil, err
		}
		c.conn, c.in = nc, bufio.NewReader(nc)
	}
	_ = c.conn.(*pipe).SetDeadline(time.Now().Add(2 * time.Second)) // it fails for a closed one alone
	if _, err := io.WriteString(c.conn, request+" HTTP/1.1\r\nContent-Length: 0\r\nHost: "+h.address+"\r\n\r\n"); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode != http.StatusOK {
		return nil, errors.New(string(body))
	}
	return body, err
}

// Kinds of IDs.
const (
	snowflakes = iota
	segments
	kinds
)

// got notes an ID, which no daemon may have given before.
func (w *world) got(kind int, h *host, id int64) {
	w.mu.Lock()
	other, again := w.issued[kind][id]
	w.issued[kind][id] = h.name
	w.mu.Unlock()
	switch {
	case again && kind == segments:
		w.fails("segment ID %d of tag k%d was issued by %s and by %s", id&(1<<48-1), id>>48, other, h.name)
	case again:
		w.fails("snowflake ID %d was issued by %s and by %s", id, other, h.name)
	}
}

// slot is where slices are lent, and lent one of them, as a daemon answers.
type slot struct{ Worker, First int64 }

type lent struct {
	slot
	From, Until int64 // in ms
	by          string
}

// borrow borrows a slice, which overlaps with none that was lent of its slot before.
func (w *world) borrow(c *client, h *host, p *process) {
	w.borrowed.Add(1)
	body, err := c.ask(h, p, fmt.Sprintf("POST /api/snowflake/lend/k?slice=%016d", w.borrowed.Load()))
	s := lent{by: h.name}
	if err != nil || json.Unmarshal(body, &s) != nil {
		return // it may refuse: all slots may be lent
	}
	w.mu.Lock()
	before := w.lent[s.slot]
	w.lent[s.slot] = append(before, s)
	w.mu.Unlock()
	for _, other := range before {
		if s.From < other.Until && other.From < s.Until {
			w.fails("a slot was lent as %+v, and as %+v", other, s)
		}
	}
}

// heal undoes what still lasts, and requires that each daemon serves within healTime.
func (w *world) heal() {
	w.healing = true
	for _, h := range w.hosts {
		if h.extra {
			h.gone()
			continue
		}
		h.undoFaults()
	}
	w.table.ReadOnly(false)
	var opened time.Time
	var unserved string
	for end := time.Now().Add(healTime); time.Now().Before(end) && w.failed() == ""; {
		w.pass(time.Second)
		if w.loses && opened.IsZero() && time.Until(end) < healTime-20*time.Second {
			opened = time.Now()
			_, _ = w.admin.Open(context.Background()) // every daemon is back, or gone for good
		}
		if unserved = w.unserved(); unserved == "" {
			return
		}
	}
	if unserved != "" {
		w.fails("%s after the last fault %s", healTime, unserved)
	}
}

// undoFaults ends what still hinders the daemon at h.
func (h *host) undoFaults() {
	h.clk.Step(h.w.clk.Read().Wall().Sub(h.clk.Read().Wall()))
	for i := range h.off {
		h.off[i].Store(false)
	}
	p := h.process.Load()
	p.disk.Store(false)
	p.plan(0, nil)
	p.eachSession(h.w.zk.Heal)
	p.thaw()
	p.join()
	if h.up = true; p.dead.Load() || p.stops.Load() {
		h.restart()
	}
}

// restart starts a daemon at h once the one that was told to stop has ended.
func (h *host) restart() {
	h.up = true
	if p := h.process.Load(); p.dead.Load() {
		h.start()
	} else {
		h.w.running.Go(func() {
			<-p.ended
			h.w.always(0, func() {
				if h.process.Load() == p && h.up {
					h.start()
				}
			})
		})
	}
}

// gone ends the daemon at h for good.
func (h *host) gone() {
	h.up, h.extra = false, true
	h.hit.Store(true)
	h.kill()
}

// unserved names a host that does not serve both kinds of IDs.
func (w *world) unserved() string {
	for _, h := range w.hosts {
		if !h.up {
			continue
		}
		var c client
		p := h.process.Load()
		first := c.ids(h, p, snowflakes, 4)
		second := c.ids(h, p, segments, 1)
		c.close()
		if err := errors.Join(first, second); err != nil {
			return fmt.Sprintf("%s does not serve: %s\n  %s", h.name, err, p.lines())
		}
	}
	return ""
}

// close ends everything.
func (w *world) close() {
	w.over.Store(true)
	for _, h := range w.hosts {
		h.up = false
		h.process.Load().kill()
	}
	w.running.Wait()
	time.Sleep(20 * time.Second) // fasthttp's workers look every ten whether they are to end
	require.NoError(w.t, w.admin.Close())
	require.NoError(w.t, os.RemoveAll(w.temp))
}

// live are the hosts with a daemon that runs, and is neither frozen nor cut off.
func (w *world) live() []*host {
	return slices.DeleteFunc(slices.Clone(w.hosts), func(h *host) bool { return !h.well() })
}

// well reports whether the daemon at h issues, and reaches everything.
func (h *host) well() bool {
	p := h.process.Load()
	return h.up && p.served.Load() && !p.dead.Load() && !p.stops.Load() && p.frozen.Load() == nil && !p.disk.Load() &&
		!h.off[zooKeeper].Load() && !h.off[database].Load()
}

// entry is what ZooKeeper has of the worker ID that h has; nil for none.
func (h *host) entry() *worker.Entry {
	all, err := h.w.admin.Entries(context.Background())
	if err != nil {
		return nil
	}
	for _, e := range all {
		if e.Address() == h.address && e.State == worker.StateActive {
			return &e
		}
	}
	return nil
}
