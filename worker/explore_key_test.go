package worker_test

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/exploretest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// keyer writes a state so that two that go on alike are alike: times relative to now, and what is
// past, zxids, life numbers and losses by their order alone; names by the order in which they are
// met. It goes over the state twice: first it collects what is ranked.
type keyer struct {
	w    *world
	s    *state
	perm []int // the order of the directories
	now  clock.Millis

	collects bool
	out      []byte
	times    []int64 // past ones
	zxids    []int64
	lives    []life
	least    int64 // of all losses that are known anywhere
	names    []string

	nodes, backedUp  []placed
	late             []sessiontest.Late
	root, backupRoot int32 // versions
	entries          [2]nodeAt
	payloads         map[string]payload
}

// placed is a node and its path.
type placed struct {
	path string
	sessiontest.Node
}

type life struct {
	instance string
	number   int64
}

// nodeAt is which node this is.
type nodeAt struct {
	version int32
	czxid   int64
	there   bool
	mzxid   int64
}

var keyers = sync.Pool{New: func() any { return &keyer{payloads: map[string]payload{}} }}

var orders = map[int][][]int{
	1: {{0}}, 2: {{0, 1}, {1, 0}}, 3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
}

// Key implements exploretest.System. Which directory is which makes no difference.
func (w *world) Key(s *state) exploretest.Key {
	k := keyers.Get().(*keyer)
	defer keyers.Put(k)
	k.w, k.s, k.now = w, s, at(s.tick)
	k.look()
	var least exploretest.Key
	for i, order := range orders[w.dirs] {
		k.perm = order
		k.write()
		if key := (exploretest.Key{maphash.Bytes(seeds[0], k.out), maphash.Bytes(seeds[1], k.out)}); i == 0 || slices.Compare(key[:], least[:]) < 0 {
			least = key
		}
	}
	return least
}

// look reads what there is, once.
func (k *keyer) look() {
	s := k.s
	k.nodes, k.backedUp, k.late = k.nodes[:0], k.backedUp[:0], s.zk.Late()
	k.root, k.backupRoot, k.entries = -1, -1, [2]nodeAt{}
	s.zk.Walk(func(p string, n sessiontest.Node) {
		k.nodes = append(k.nodes, placed{p, n})
		switch {
		case p == zkreg.DefaultRoot:
			k.root = n.Stat.Version
		case ofLayout(p):
			k.entries[p[len(p)-1]-'0'] = nodeAt{n.Stat.Version, n.Stat.Czxid, true, n.Stat.Mzxid}
		}
	})
	if s.backup != nil {
		s.backup.Walk(func(p string, n sessiontest.Node) {
			k.backedUp = append(k.backedUp, placed{p, n})
			if p == zkreg.DefaultRoot {
				k.backupRoot = n.Stat.Version
			}
		})
	}
}

func (k *keyer) write() {
	k.times, k.zxids, k.lives, k.least = k.times[:0], k.zxids[:0], k.lives[:0], math.MaxInt64
	for _, k.collects = range []bool{true, false} {
		k.out, k.names = k.out[:0], k.names[:0]
		k.all()
		if k.collects {
			slices.SortFunc(k.times, func(a, b int64) int { return cmp.Compare(b, a) })
			k.times = slices.Compact(k.times)
			slices.Sort(k.zxids)
			k.zxids = slices.Compact(k.zxids)
			slices.SortFunc(k.lives, func(a, b life) int {
				return cmp.Or(strings.Compare(a.instance, b.instance), cmp.Compare(a.number, b.number))
			})
			k.lives = slices.Compact(k.lives)
		}
	}
}

func (k *keyer) int(v int64) { k.out = binary.AppendVarint(k.out, v) }

func (k *keyer) bool(v bool) {
	if v {
		k.out = append(k.out, 1)
	} else {
		k.out = append(k.out, 0)
	}
}

func (k *keyer) time(t clock.Millis) {
	switch {
	case t == 0:
		k.int(math.MinInt32)
	case t >= k.now:
		k.int(int64(t - k.now))
	case k.collects:
		k.times = append(k.times, int64(t))
	default:
		rank, _ := slices.BinarySearchFunc(k.times, int64(t), func(a, b int64) int { return cmp.Compare(b, a) })
		k.int(-1 - int64(rank))
	}
}

// ahead tells of what is past no more than that.
func (k *keyer) ahead(t clock.Millis) { k.int(int64(max(0, t-k.now+1))) }

// ceiling tells of one that lies within its piece no more than that: a limit is as good.
func (k *keyer) ceiling(ceiling, floor, limit clock.Millis) {
	if ceiling <= max(floor, limit) {
		ceiling = 0
	}
	k.time(ceiling)
}

func (k *keyer) zxid(z int64) {
	if k.collects {
		k.zxids = append(k.zxids, z)
		return
	}
	rank, _ := slices.BinarySearch(k.zxids, z)
	k.int(int64(rank))
}

func (k *keyer) name(s string) {
	if s == "" {
		k.int(-1)
		return
	}
	i := slices.Index(k.names, s)
	if i < 0 {
		i = len(k.names)
		k.names = append(k.names, s)
	}
	k.int(int64(i))
}

func (k *keyer) life(instance, owner string, number int64) {
	k.name(owner)
	l := life{instance, number}
	if k.collects {
		k.lives = append(k.lives, l)
		return
	}
	i, _ := slices.BinarySearchFunc(k.lives, l, func(a, b life) int {
		return cmp.Or(strings.Compare(a.instance, b.instance), cmp.Compare(a.number, b.number))
	})
	first := i
	for first > 0 && k.lives[first-1].instance == instance {
		first--
	}
	k.int(int64(i - first))
}

// losses are told from the least on; none, and some, are told apart.
func (k *keyer) losses(n int64) {
	if k.collects {
		k.least = min(k.least, n)
		return
	}
	k.int(n - max(0, k.least-1))
}

func (k *keyer) all() {
	s := k.s
	k.int(int64(s.losses))
	k.bool(s.rested)
	k.bool(s.found)
	k.int(int64(k.place(s.copied)))
	if k.w.forces {
		k.name(s.forced.Instance)
		k.int(s.forced.WorkerID)
		k.time(s.forced.Floor)
	}
	for _, f := range k.perm {
		k.dir(&s.dirs[f])
	}
	for id := range k.w.ids {
		for _, m := range s.marks[id] {
			k.bool(m.instance != "")
			if m.instance != "" {
				k.int(int64(k.place(m.dir)))
			}
			if k.w.copies { // of two directories with one instance
				k.name(m.instance)
			}
		}
	}
	for _, n := range k.nodes {
		k.node(n.path, n.Node)
	}
	for _, late := range k.late {
		k.int(1 << 20)
		k.int(int64(k.of(late.Session)))
		late.Walk(func(what, p string, n sessiontest.Node) {
			k.out = append(k.out, what...)
			k.out = append(k.out, p...)
			k.payload(n.Data)
			if p == zkreg.DefaultRoot {
				k.bool(n.Stat.Version == k.root)
			} else if ofLayout(p) && n.Stat.Version >= 0 {
				k.bool(k.entries[p[len(p)-1]-'0'].version == n.Stat.Version)
			}
		})
	}
	k.bool(s.backup != nil)
	if s.backup != nil {
		for _, n := range k.backedUp {
			k.node(n.path, n.Node)
		}
	}
}

// has tells that an entry was written last by that write.
func (k *keyer) has(mzxid int64) bool {
	return k.entries[0].mzxid == mzxid || k.entries[1].mzxid == mzxid
}

// ofLayout tells that p is an entry of a worker ID that there is.
func ofLayout(p string) bool {
	return p == taken || p == forever+"/worker-0000000000"
}

// place is where directory f comes in the order.
func (k *keyer) place(f int8) int { return slices.Index(k.perm, int(f)) }

// of is where the directory of a session comes in the order; -1 for none.
func (k *keyer) of(session int) int {
	for i, f := range k.perm {
		if d := &k.s.dirs[f]; d.phase != off && d.session == session {
			return i
		}
	}
	return -1
}

func (k *keyer) dir(d *dir) {
	k.int(int64(d.phase))
	k.bool(d.filed)
	k.bool(d.dead)
	k.bool(d.knows)
	k.bool(d.strayed)
	k.bool(d.forced)
	if d.dead {
		return
	}
	if d.filed {
		k.record(d.file)
	}
	if d.phase == off {
		return
	}
	k.name(d.owner)
	k.bool(d.silent && k.w.reached())
	if d.phase == running {
		k.record(d.rec)
	} else {
		k.record(d.life.Record())
		root, entry, conn, until := d.life.Settling()
		same := conn == k.s.zk.Session(d.session).Connection()
		if !same || k.s.backup == nil && (root != k.root && !k.w.anyRoot || !k.has(entry)) {
			entry = 0 // it never comes again
		}
		k.bool(entry != 0)
		if entry != 0 {
			k.int(int64(root - k.root))
			if k.backupRoot >= 0 {
				k.int(int64(root - k.backupRoot))
			}
			k.zxid(entry)
			k.int(int64(max(0, until-k.s.clock(0).mono)))
		}
		mzxid, live, seen, stirred := d.life.Seen()
		switch {
		case k.s.backup != nil:
			k.zxid(mzxid)
		case mzxid != 0:
			k.bool(k.has(mzxid)) // else it never comes again
		}
		if k.w.copies || k.w.shown {
			k.name(live)
			k.bool(seen < k.s.clock(0).mono)
		}
		k.bool(stirred)
		k.bool(d.life.Watches())
	}
	held := d.life.Held()
	k.bool(held != nil)
	if held == nil {
		return
	}
	one := k.s.zk.Session(d.session)
	k.bool(held.Conn == one.Connection())
	k.zxid(held.Parent)
	k.name(held.Live)
	k.bool(held.Root != nil)
	if r := held.Root; r != nil {
		k.bool(r.Stat.Version == k.root)
		k.losses(r.Losses)
		k.time(r.LostAt)
		k.time(r.Floor)
		k.zxid(r.Parent)
	}
	k.bool(held.Entry != nil)
	if e := held.Entry; e != nil {
		is := k.entries[e.WorkerID]
		k.bool(is.there && is.version == e.Stat.Version)
		k.zxid(e.Stat.Czxid)
		k.zxid(e.Stat.Mzxid)
		k.int(e.WorkerID)
		k.name(e.Instance)
		k.life(e.Instance, e.Owner, e.Life)
		k.out = append(k.out, e.State...)
		k.time(e.Floor)
		k.time(e.Limit)
		k.bool(e.Free)
		k.over(e.Over)
	}
}

func (k *keyer) record(r worker.Record) {
	k.bool(r.Cluster != "")
	if r.Cluster != "" {
		k.losses(r.Losses)
		k.time(r.LostAt)
	}
	k.int(r.WorkerID)
	k.name(r.Instance)
	k.life(r.Instance, r.Acked.Owner, r.Acked.Number)
	k.life(r.Instance, r.Current.Owner, r.Current.Number)
	k.out = append(k.out, r.State...)
	if r.WorkerID < 0 {
		k.time(r.Ceiling)
		return
	}
	k.time(r.Floor)
	k.time(r.Limit)
	k.time(r.AckedLimit)
	k.ceiling(r.Ceiling, r.Floor, r.Limit)
}

func (k *keyer) payload(data []byte) {
	if len(data) == 0 || data[0] != '{' {
		k.int(0)
		return
	}
	p, known := k.payloads[string(data)]
	if !known {
		if len(k.payloads) > 1<<17 {
			clear(k.payloads)
		}
		p = decoded(data)
		k.payloads[string(data)] = p
	}
	k.name(p.Instance)
	k.life(p.Instance, p.Owner, p.Life)
	k.out = append(k.out, p.State...)
	k.time(p.Floor)
	k.time(p.Limit)
	k.ceiling(p.Ceiling, p.Floor, p.Limit)
	k.bool(p.Free)
	k.over(p.Over)
	if p.State == "" { // the root's
		k.losses(p.Losses)
		k.time(p.LostAt)
		k.zxid(p.ParentCzxid)
	}
}

func (k *keyer) over(o *worker.Over) {
	k.bool(o != nil)
	if o != nil {
		k.life(o.Instance, "", o.Life)
		k.name(o.Instance)
		k.out = append(k.out, o.State...)
		k.time(o.Floor)
		k.time(o.Limit)
	}
}

// node writes what matters of a node.
func (k *keyer) node(p string, n sessiontest.Node) {
	switch {
	case p == "/" || p == zkreg.DefaultRoot+"/leaf_temporary":
	case p == taken && k.w.ids == 1:
	case strings.HasPrefix(p, forever+"/") && !ofLayout(p): // a late write's, of a number that no instance can have
	case p == zkreg.DefaultRoot:
		k.out = append(k.out, p...)
		k.payload(n.Data)
		if k.payloads[string(n.Data)].Losses == 0 { // a claim is made in a young root
			k.ahead(clock.Millis(n.Stat.Ctime))
		}
	case strings.HasPrefix(p, zkreg.DefaultRoot+"/leaf_temporary/"):
		_, instance, _ := strings.Cut(p, "~")
		k.name(instance)
		k.name(string(n.Data))
		k.int(int64(k.of(int(n.Stat.EphemeralOwner))))
	case p == released || strings.HasPrefix(p, released+"/"):
		k.out = append(k.out, p...)
	case p == forever:
		k.out = append(k.out, p...)
		k.zxid(n.Stat.Czxid)
		k.int(int64(min(n.Made, 2)))
	default:
		k.out = append(k.out, p...)
		k.payload(n.Data)
		k.zxid(n.Stat.Czxid)
		k.zxid(n.Stat.Mzxid)
		if decoded := k.payloads[string(n.Data)]; decoded.State == string(worker.StateClaiming) {
			k.ahead(clock.Millis(n.Stat.Mtime))
		}
	}
}
