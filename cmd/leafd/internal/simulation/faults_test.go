package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// Where a fault may happen: P1 excludes the others.
const (
	everywhere = iota
	keeps      // ZooKeeper keeps its data: clocks may be anywhere, and the table may lose commits
	loses      // ZooKeeper may lose data: clocks are within the threshold
)

// fault is a row of the table of faults. do is what happens, to h mostly; it is not done where may says no.
type fault struct {
	name   string
	weight int
	where  int
	may    func(w *world, h *host) bool
	do     func(w *world, h *host, r *rand.Rand)
}

func running(_ *world, h *host) bool { return !h.process.Load().dead.Load() }
func always(*world, *host) bool      { return true }

// connected reports whether h and its ZooKeeper reach one another, which the fault then needs.
func connected(_ *world, h *host) bool { return h.well() }

// free reports whether h may be cut off.
func free(w *world, h *host) bool {
	return running(w, h) && time.Now().After(h.pinned) && time.Now().After(w.calm)
}

func all(w *world, may func(w *world, h *host) bool) bool {
	return !slices.ContainsFunc(w.hosts, func(h *host) bool { return h.up && !may(w, h) })
}

func some(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}

var faults = []fault{
	{"kill -9, clock back, restart", 4, everywhere, running, func(_ *world, h *host, r *rand.Rand) {
		h.crash(r, nil)
	}},
	{"killed at a write", 4, everywhere, running, func(w *world, h *host, r *rand.Rand) {
		p := h.strike()
		p.plan(1+r.IntN(6), func() {
			p.kill()
			w.after(0, func() { h.crash(r, nil) })
		})
	}},
	{"clean stop, other settings", 3, everywhere, running, func(_ *world, h *host, r *rand.Rand) {
		h.stop(r)
		h.startAfter(some(r, 0, 4*time.Second))
	}},
	{"stopped and gone", 1, everywhere, func(w *world, h *host) bool { return h.well() && len(w.live()) > 3 }, func(w *world, h *host, r *rand.Rand) {
		h.stop(r)
		other := w.join()
		h.startAfter(some(r, 10*time.Second, 40*time.Second))
		w.after(some(r, 30*time.Second, 60*time.Second), other.gone)
	}},
	{"clock steps", 4, everywhere, running, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		d := some(r, -20*time.Second, 20*time.Second)
		h.move([...]time.Duration{d, d / 8, d / 100}[r.IntN(3)])
		w.after(some(r, time.Second, 20*time.Second), h.rightClock)
	}},
	{"clock steps during a start", 4, keeps, running, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		h.kill()
		h.up = false
		w.after(some(r, sessionTime, sessionTime+time.Second), func() {
			h.heat(8 * time.Second)
			h.restart()
			step, right := -some(r, time.Second, threshold), 20*time.Second
			if r.IntN(2) == 0 && w.mayJump(h) {
				step, right = some(r, time.Hour, 100*time.Hour), some(r, time.Second, 10*time.Second)
			}
			until := time.Now().Add(right)
			h.process.Load().plan(1+r.IntN(5), func() {
				if time.Now().Before(until) {
					h.move(step)
				}
			})
			w.after(right, h.rightClock)
		})
	}},
	{"frozen", 3, everywhere, func(w *world, h *host) bool { return free(w, h) && h.well() }, func(w *world, h *host, r *rand.Rand) {
		p := h.strike()
		p.freeze()
		d := [...]time.Duration{some(r, 0, 5*time.Second), some(r, 5*time.Second, 20*time.Second), some(r, 60*time.Second, 80*time.Second)}[r.IntN(3)]
		if d > lease {
			w.joinAfter(d - 15*time.Second)
		}
		w.after(d, func() {
			h.heat(4 * time.Second)
			p.thaw()
		})
	}},
	{"cut off", 4, everywhere, free, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		w.cutOff(r, [][]int{{zooKeeper}, {database}, {peers}, {zooKeeper, database, peers}}[r.IntN(4)], h)
	}},
	{"cut off beyond the limit, replaced", 3, everywhere, free, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		h.cut(some(r, 75*time.Second, 95*time.Second), zooKeeper)
		for i := range 6 { // until no other worker ID is left
			w.joinAfter(lease - 20*time.Second + time.Duration(i)*5*time.Second)
		}
		w.after(lease, func() { h.heat(35 * time.Second) })
	}},
	{"all cut off from ZooKeeper", 2, everywhere, func(w *world, _ *host) bool { return all(w, free) }, func(w *world, _ *host, r *rand.Rand) {
		w.cutOff(r, []int{zooKeeper}, w.hosts...)
	}},
	{"disk takes no write", 3, everywhere, free, func(w *world, h *host, r *rand.Rand) {
		p := h.strike()
		if r.IntN(2) == 0 {
			h.cut(some(r, 15*time.Second, 20*time.Second), zooKeeper) // which has the ceiling, too
		}
		p.disk.Store(true)
		w.after(some(r, time.Second, 10*time.Second), func() {
			p.disk.Store(false)
			if r.IntN(3) > 0 && !p.dead.Load() {
				h.crash(r, nil)
			}
		})
	}},
	{"directory lost", 2, everywhere, running, func(w *world, h *host, r *rand.Rand) {
		h.crash(r, func() { h.data = w.newData() })
	}},
	{"slot of the record damaged", 3, keeps, free, func(w *world, h *host, r *rand.Rand) {
		short := r.IntN(2) == 0
		h.cut(some(r, 15*time.Second, 20*time.Second), zooKeeper) // which has the ceiling, too
		w.after(some(r, 4*time.Second, 9*time.Second), func() { h.crash(r, func() { damage(h.data, short) }) })
	}},
	{"record of an earlier life put back", 4, keeps, free, func(w *world, h *host, r *rand.Rand) {
		old := h.data.files()["worker.json"]
		h.crash(r, nil)
		w.after(some(r, 8*time.Second, 11*time.Second), func() {
			h.strike()
			h.cut(some(r, 10*time.Second, 15*time.Second), zooKeeper)
			w.after(some(r, time.Second, 4*time.Second), func() {
				h.crash(r, func() { _ = os.WriteFile(filepath.Join(h.data.path, "worker.json"), old, 0o600) })
			})
		})
	}},
	{"copied", 3, everywhere, connected, func(w *world, h *host, r *rand.Rand) {
		w.copied(r, h, w.copyOf(h.data, r.IntN(2) == 0))
	}},
	{"elsewhere on a copy, cut off", 2, keeps, free, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		other := w.newHost()
		other.data = w.copyOf(h.data, false)
		other.off[zooKeeper].Store(true)
		other.off[peers].Store(true)
		other.off[database].Store(true)
		other.alone()
		w.after(some(r, 30*time.Second, 60*time.Second), other.gone)
	}},
	{"started twice", 1, everywhere, running, func(w *world, h *host, r *rand.Rand) {
		h.heat(20 * time.Second)
		other := w.newHost()
		other.data = h.data
		other.alone()
		w.after(some(r, 5*time.Second, 30*time.Second), other.gone)
	}},
	{"answers lost", 3, everywhere, free, func(w *world, h *host, r *rand.Rand) {
		p := h.strike()
		for range 1 + r.IntN(3) {
			what := [...]sessiontest.Fault{sessiontest.NotSent, sessiontest.AnswerLost, sessiontest.SentLate}[r.IntN(3)]
			p.eachSession(func(s zkreg.Session) { w.zk.FailWrite(s, 1+r.IntN(4), what) })
		}
		w.deliver(r)
		if r.IntN(2) == 0 {
			h.restartAfter(r, some(r, time.Second, 6*time.Second))
		}
	}},
	{"released by force while it runs", 2, everywhere, func(w *world, h *host) bool { return connected(w, h) && free(w, h) && h.entry() != nil }, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		h.cut(time.Minute, peers) // a rival that its peers see is told
		h.forced = time.Now().Add(healTime)
		_, _ = w.admin.Release(context.Background(), h.entry().WorkerID, true)
		if r.IntN(2) == 0 { // before its next life asks
			h.whenTold("a new life begins", func() { h.cut(40*time.Second, zooKeeper) })
		}
		for i := range 3 { // beyond the limit that the release leaves
			w.joinAfter(lead + margin + some(r, 0, 8*time.Second) + time.Duration(i)*6*time.Second)
		}
		w.after(15*time.Second, func() { h.heat(30 * time.Second) })
	}},
	{"cut off, lost for good, released by force", 2, everywhere, func(w *world, h *host) bool { return connected(w, h) && free(w, h) && h.entry() != nil }, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		d, id := some(r, 2*time.Second, 40*time.Second), h.entry().WorkerID
		h.cut(d, zooKeeper)
		w.after(d-time.Second, func() {
			h.crash(r, func() { h.data = w.newData() })
			_, _ = w.admin.Release(context.Background(), id, true)
			w.joinAfter(some(r, 0, lead+margin))
			w.joinAfter(some(r, 0, 2*(lead+margin)))
		})
	}},
	{"clock jumps ahead", 2, keeps, func(w *world, h *host) bool { return h.well() && all(w, free) }, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		if !w.mayJump(h) {
			return
		}
		h.clk.Step(some(r, time.Hour, 100*time.Hour))
		w.after(some(r, 0, 10*time.Second), func() {
			if r.IntN(2) == 0 {
				h.kill()
				h.startAfter(sessionTime)
			}
			h.rightClock()
		})
	}},
	{"new daemon", 2, everywhere, always, func(w *world, _ *host, r *rand.Rand) {
		other := w.join()
		w.after(some(r, 20*time.Second, 80*time.Second), other.gone)
	}},
	{"ZooKeeper emptied", 2, loses, always, func(w *world, _ *host, r *rand.Rand) {
		if r.IntN(2) == 0 {
			w.cutOff(r, []int{zooKeeper}, w.hosts...)
		}
		w.lost(w.zk.Wipe)
		w.joinAfter(some(r, 0, 5*time.Second))
	}},
	{"ZooKeeper emptied, one does not know", 2, loses, free, func(w *world, h *host, r *rand.Rand) {
		h.strike()
		h.cut(some(r, 50*time.Second, 60*time.Second), zooKeeper)
		w.lost(w.zk.Wipe)
		for range 3 {
			w.joinAfter(some(r, 8*time.Second, 20*time.Second))
		}
		w.after(15*time.Second, func() { h.heat(40 * time.Second) })
	}},
	{"ZooKeeper set back", 4, loses, func(w *world, _ *host) bool { return len(w.backups) > 1 && len(w.live()) > 1 }, func(w *world, h *host, r *rand.Rand) {
		w.restore(r, h, w.backups[r.IntN(len(w.backups)-1)])
	}},
	{"handed over, ZooKeeper set back", 4, loses, func(w *world, h *host) bool { return h.well() && len(w.live()) > 1 && h.process.Load().releases }, func(w *world, h *host, r *rand.Rand) {
		back := w.zk.Backup()
		if r.IntN(2) == 0 { // its file does not know that ZooKeeper has the release
			h.process.Load().eachSession(func(s zkreg.Session) { w.zk.FailWrite(s, 1+r.IntN(2), sessiontest.AnswerLost) })
		}
		h.stop(r)
		w.after(sessionTime+time.Second, func() {
			heir := w.join() // of its worker ID
			away := [][]*host{nil, {heir}, w.hosts}[r.IntN(3)]
			w.after(some(r, 18*time.Second, 25*time.Second), func() {
				for _, other := range away {
					other.cut(time.Minute, zooKeeper)
				}
				w.restore(r, h, back)
				h.off[zooKeeper].Store(false)
				heir.heat(40 * time.Second)
				h.startAfter(0)
				w.after(time.Second, func() { h.heat(40 * time.Second) })
			})
		})
	}},
	{"cluster opened", 2, loses, func(w *world, _ *host) bool {
		return all(w, func(_ *world, h *host) bool { return h.well() && h.entry() != nil })
	}, func(w *world, _ *host, r *rand.Rand) {
		_, _ = w.admin.Open(context.Background())
		w.joinAfter(some(r, 0, 3*time.Second))
	}},
	{"max_id set back", 3, keeps, func(w *world, _ *host) bool { return w.guarded() && len(w.tables) > 0 }, func(w *world, _ *host, r *rand.Rand) {
		w.tableLoses(w.tables[r.IntN(len(w.tables))])
	}},
	{"all cut off from ZooKeeper, back, and the table loses commits", 3, keeps, func(w *world, _ *host) bool { return all(w, free) && w.guarded() }, func(w *world, _ *host, r *rand.Rand) {
		d := some(r, 5*time.Second, 15*time.Second)
		for _, h := range w.hosts {
			h.cut(d, zooKeeper)
		}
		var back func()
		w.after(d*2/3, func() { back = w.table.Snapshot() })
		w.after(d+10*time.Second, func() {
			if w.guarded() {
				w.tableLoses(back)
			}
		})
	}},
	{"table takes no writes", 2, everywhere, always, func(w *world, _ *host, r *rand.Rand) {
		w.table.ReadOnly(true)
		w.after(some(r, time.Second, 20*time.Second), func() { w.table.ReadOnly(false) })
	}},
}

// strike notes that a fault hits h.
func (h *host) strike() *process {
	h.hit.Store(true)
	h.heat(4 * time.Second)
	return h.process.Load()
}

// move steps the clock of h, within the threshold where ZooKeeper may lose data.
func (h *host) move(d time.Duration) {
	if h.w.loses {
		off := h.clk.Millis().Sub(h.w.clk.Millis())
		d = min(max(off+d, -threshold/2), threshold/2) - off
	}
	h.clk.Step(d)
}

func (h *host) rightClock() { h.clk.Step(h.w.clk.Read().Wall().Sub(h.clk.Read().Wall())) }

// kill ends the daemon at h. What it used without ZooKeeper, and has not raised there, may then not be lost by the table.
func (h *host) kill() {
	h.w.tainted = h.w.tainted || time.Now().Before(h.raised)
	h.process.Load().kill()
}

// crash kills the daemon, sets the clock back at times, and starts it again soon.
func (h *host) crash(r *rand.Rand, meanwhile func()) {
	h.strike()
	h.kill()
	if meanwhile != nil {
		meanwhile()
	}
	down := [...]time.Duration{0, some(r, 0, 300*time.Millisecond), some(r, sessionTime, sessionTime+time.Second)}[r.IntN(3)]
	if r.IntN(4) > 0 {
		h.back(r, down)
	}
	h.startAfter(down)
}

// back sets the clock of h back, so that it is in the report interval before now when down has passed.
func (h *host) back(r *rand.Rand, down time.Duration) {
	h.move(-down - some(r, 0, report))
	h.w.after(some(r, 5*time.Second, 20*time.Second), h.rightClock)
}

// stop stops the daemon, and changes settings for its next life.
func (h *host) stop(r *rand.Rand) {
	p := h.strike()
	p.stops.Store(true)
	p.end()
	h.flags["release-on-stop"] = fmt.Sprint(r.IntN(2) == 0)
	h.flags["segment-guard"] = [...]string{"prefer", "require"}[r.IntN(2)]
	h.flags["lease"] = [...]string{lease.String(), (lease * 3 / 2).String()}[r.IntN(2)]
	h.flags["lend"] = [...]string{"0s", h.w.lend.String()}[r.IntN(2)]
	h.up = false
}

func (h *host) startAfter(d time.Duration) {
	h.up = false
	h.w.after(d, func() {
		if !h.up && !h.extra {
			h.heat(4 * time.Second)
			h.restart()
		}
	})
}

func (h *host) restartAfter(r *rand.Rand, d time.Duration) {
	h.w.after(d, func() {
		if p := h.process.Load(); !p.dead.Load() && !p.stops.Load() {
			if r.IntN(2) == 0 {
				h.crash(r, nil)
				return
			}
			h.stop(r)
			h.startAfter(some(r, 0, 3*time.Second))
		}
	})
}

// mayJump reports whether the clock of h may jump beyond the threshold now: that of one host alone, for a while.
func (w *world) mayJump(h *host) bool {
	if time.Now().Before(w.jumped) {
		return false
	}
	w.jumped = time.Now().Add(25 * time.Second)
	h.pinned = w.jumped
	w.calm = w.jumped
	return true
}

// cut cuts h off for d; from ZooKeeper only where nothing has to be calm.
func (h *host) cut(d time.Duration, from ...int) {
	if slices.Contains(from, zooKeeper) && time.Now().Before(h.w.calm) {
		return
	}
	h.hit.Store(true)
	for _, net := range from {
		h.off[net].Store(true)
	}
	p := h.process.Load()
	if h.off[zooKeeper].Load() {
		p.eachSession(h.w.zk.Cut)
		h.raised = time.Now().Add(d + 10*time.Second)
	}
	h.w.after(d, func() {
		for _, net := range from {
			h.off[net].Store(false)
		}
		h.process.Load().join()
	})
}

// whenTold has f done once the daemon at h logs text, from now on.
func (h *host) whenTold(text string, f func()) {
	p := h.process.Load()
	before := strings.Count(p.lines(), text)
	var look func()
	look = func() {
		if strings.Count(p.lines(), text) > before {
			f()
		} else if !p.dead.Load() {
			h.w.after(50*time.Millisecond, look)
		}
	}
	look()
}

func (w *world) cutOff(r *rand.Rand, from []int, hosts ...*host) {
	d := [...]time.Duration{some(r, 0, 3*time.Second), some(r, 3*time.Second, 30*time.Second)}[r.IntN(2)]
	for _, h := range hosts {
		if h.up {
			h.cut(d, from...)
		}
	}
}

// join has a new daemon join, which goes at the end.
func (w *world) join() *host {
	h := w.newHost()
	h.alone()
	return h
}

func (w *world) joinAfter(d time.Duration) { w.after(d, func() { w.join() }) }

// alone starts a daemon that a fault is about.
func (h *host) alone() {
	h.extra = true
	h.hit.Store(true)
	h.begin()
}

// deliver has late writes arrive.
func (w *world) deliver(r *rand.Rand) {
	for range 4 {
		w.after(some(r, 0, 8*time.Second), func() {
			if late := w.zk.Late(); len(late) > 0 {
				_ = w.zk.Deliver(late[r.IntN(len(late))].ID)
			}
		})
	}
}

// lost has ZooKeeper lose data.
func (w *world) lost(lose func()) {
	for _, h := range w.hosts {
		h.pinned = time.Now().Add(time.Hour) // copies that are cut off
	}
	lose()
	w.backups = nil
}

// restore puts a backup back. The operator says so, unless a daemon that knows better will.
func (w *world) restore(r *rand.Rand, h *host, b *sessiontest.Backup) {
	var clone *data // of the disk of a daemon that runs
	if h.well() && r.IntN(2) == 0 {
		clone = w.copyOf(h.data, true)
	}
	w.lost(func() { w.zk.Restore(b, w.zk.Zxid()) })
	if len(w.live()) > 2 && r.IntN(2) == 0 { // one of them knows better
		w.calm = time.Now().Add(20 * time.Second)
	} else {
		_, err := w.admin.Recover(context.Background())
		require.True(w.t, err == nil || errors.Is(err, worker.ErrNoCluster), "%v", err) // the backup is of one that was emptied
	}
	if r.IntN(2) == 0 {
		w.joinAfter(0)
	}
	if clone != nil {
		w.copied(r, h, clone)
	}
}

// copied starts a daemon on a copy of the data of h, while that runs, and is cut off no more.
func (w *world) copied(r *rand.Rand, h *host, d *data) {
	h.strike()
	other := w.newHost()
	other.data = d
	h.pinned = time.Now().Add(time.Hour)
	other.pinned = h.pinned
	other.alone()
	w.after(some(r, 10*time.Second, 60*time.Second), other.gone)
}

// guarded reports whether each daemon reaches ZooKeeper, and has for a while.
func (w *world) guarded() bool {
	return !w.tainted && !slices.ContainsFunc(w.hosts, func(h *host) bool { return h.up && (!h.well() || time.Now().Before(h.raised)) })
}

// tableLoses has the table lose commits: nothing is cut off while a tag is in use that it had before (behind-unguarded).
func (w *world) tableLoses(back func()) {
	w.calm = time.Now().Add(30 * time.Second)
	for _, h := range w.hosts {
		h.process.Load().eachSession(w.zk.Heal)
	}
	back()
	w.tables = nil
}

// damage damages a slot of the record: the newer one, or the older one as a save does that is cut short.
func damage(d *data, cutShort bool) {
	path := filepath.Join(d.path, "worker.json")
	content, _ := os.ReadFile(path)
	found := regexp.MustCompile(`"sequence": (\d+)`).FindAllSubmatchIndex(content, -1)
	if len(found) != 2 {
		return // killed before it had one, or in a save
	}
	number := func(slot []int) int {
		n, _ := strconv.Atoi(string(content[slot[2]:slot[3]])) // digits
		return n
	}
	older, newer := found[0], found[1]
	if number(older) > number(newer) {
		older, newer = newer, older
	}
	if cutShort {
		copy(content[older[2]:older[3]], strconv.Itoa(number(older)+2))
	} else {
		clear(content[newer[0]:newer[1]])
	}
	_ = os.WriteFile(path, content, 0o600)
}
