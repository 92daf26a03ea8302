package worker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/exploretest"
	"github.com/leafd/leafd/test/sessiontest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
	"github.com/leafd/leafd/zkreg/zksession"
)

// What is explored counts time in units. Clocks, of the daemons and of ZooKeeper, show the time
// or apart more than it, at each reading anew; the margin, twice the clocks' threshold, is as much.
const (
	unit  = 2 * time.Hour
	apart = 1 // units
	lease = 3 // units
	begin = clock.Millis(1_700_000_000_000)
)

// at returns the time so many units after the first.
func at(units int64) clock.Millis { return begin.Add(time.Duration(units) * unit) }

// world is what is explored: daemons, each with a data directory, and a ZooKeeper.
type world struct {
	dirs, ids int  // directories, and worker IDs
	exact     bool // clocks show the time

	losses   int  // how often ZooKeeper may lose data
	restore  bool // by a backup of any moment, with `cluster recover`
	alone    bool // or without it
	wipe     bool // or all of it
	partial  bool // or leaf_forever with all entries
	oneBak   bool // there is one backup at most
	open     bool // `cluster open`
	releases bool // daemons stop with --release-on-stop
	lost     bool // answers get lost
	late     bool // writes are late
	crashes  bool // between any two requests, and between file and ZooKeeper
	longer   int  // units; a longer lease, that daemons may have as well
	copies   bool // one directory is copied, unseen; daemons that run reach ZooKeeper
	forces   bool // an operator releases a worker ID by force; daemons that run reach ZooKeeper
	away     bool // but its holder doesn't run then, and comes back later, with ZooKeeper
	endings  bool // a start ends in order, at any step
	java     bool // a Java Leaf shares the tree, and has the worker ID 0
	roots    bool // a start may have another --zk-root
	shown    bool // daemons are in the live set, as with copies
	split    bool // others come between a look and what is done then
	depth    int  // events in a row at most; 0: no bound

	// A rule taken out.
	decide      func(r worker.Record, s worker.Snapshot, now worker.Moment) worker.Action
	snapshot    func(s *worker.Snapshot)
	settle      func(r worker.Record) bool        // false: it does not settle
	reconnects  bool                              // a settling goes on over another connection
	anyRoot     bool                              // or once the root was written
	session     func(zkreg.Session) zkreg.Session // of a daemon
	jump        int                               // units that a claim's limit lies beyond its lease
	entryFirst  bool                              // a release is in the entry before it is in the file
	unavailable bool                              // it isn't checked whether holders keep their worker IDs
	included    bool                              // what the promise excludes is not left out
	anyPlace    bool                              // a record goes with any root

	cells [9][7]atomic.Int64 // how often each of Decide's cells was asked
	kinds [32]atomic.Int64   // how often each kind of event happened
}

// phase is where a directory's process stands.
type phase uint8

const (
	off phase = iota
	starting
	running
)

// dir is a data directory and its process.
type dir struct {
	phase   phase
	filed   bool // there is a record
	member  bool // it had a worker ID once
	strayed bool // its process has another --zk-root
	forced  bool // its worker ID was released by force, and it got no piece since
	knows   bool // a ZooKeeper set back without recover is found out once it comes
	dead    bool // for good
	file    worker.Record
	rec     worker.Record // running: of the process
	life    worker.Holding
	owner   string
	session int
	silent  bool // it has not reported since a copy looked or wrote, or time passed
}

// mark is the instance, and the directory, that has issued a time.
type mark struct {
	instance string
	dir      int8
}

// state is one state of a world.
type state struct {
	zk     *sessiontest.Memory
	backup *sessiontest.Backup
	tick   int64
	dirs   [3]dir
	marks  [2][apart + 1]mark // of each worker ID, the times that clocks may show

	losses        uint8
	rested, found bool         // a ZooKeeper was set back without recover, and that was found out
	copied        int8         // directory that is a copy; -1: none
	named         int          // owners and instances so far
	forced        worker.Entry // as it was before the operator released it
	odd           string
	drew          bool // the event had a worker ID drawn
}

// kind is what happens.
type kind uint8

const (
	passes kind = iota // a unit of time
	backsUp
	restores    // and recovers
	restoresRaw // and doesn't
	wipes
	loses // leaf_forever
	opens
	forces
	copies
	delivers
	crashes
	strays
	endsStart
	startsAlone
	steps
	unreached
	reports
	releases
	kindCount
)

var kindNames = [kindCount]string{
	"time passes", "a backup is taken", "the backup is put back, and `cluster recover`", "the backup is put back", "ZooKeeper loses everything",
	"leaf_forever is gone", "`cluster open`", "`worker release --force`", "is copied", "a late write is done", "crashes", "starts with another --zk-root", "ends while it starts", "starts without ZooKeeper", "starts, or goes on starting",
	"doesn't reach ZooKeeper", "reports", "stops and releases",
}

// event is one that can happen, whole or disturbed.
type event struct {
	kind   kind
	dir    int8
	to     int8 // copies: the other directory; delivers: which one
	c, zc  int8 // the daemon's clock, and ZooKeeper's: units ahead
	long   bool // with the longer lease
	fault  sessiontest.Fault
	write  int8 // the fault's
	unsafe bool // crashes before the file has what was acknowledged
	draw   int8 // of worker IDs
}

func (e event) String() string {
	s := string(rune('A'+e.dir)) + " " + kindNames[e.kind]
	if e.kind <= forces || e.kind == delivers {
		s = kindNames[e.kind]
	}
	if e.kind >= startsAlone || e.kind == opens || e.kind == forces || e.kind == restores {
		s += fmt.Sprintf(" (its clock +%d, ZooKeeper's +%d)", e.c, e.zc)
	}
	if e.long {
		s += ", with the longer lease"
	}
	if e.fault != 0 {
		s += fmt.Sprintf(", write %d: %s", e.write, [...]string{"", "not sent", "answer lost", "late", "killed before", "killed after"}[e.fault])
	}
	if e.unsafe {
		s += ", killed before the file has it"
	}
	if e.kind == copies {
		s += " to " + string(rune('A'+e.to))
	}
	return s
}

// fixed is a clock that stands.
type fixed struct {
	wall clock.Millis
	mono time.Duration
}

func (f fixed) Wall() (int64, time.Duration) { return int64(f.wall) * 1e6, f.mono }
func (f fixed) Mono() time.Duration          { return f.mono }
func (f fixed) Read() clock.Reading {
	return clock.Reading{WallNS: int64(f.wall) * 1e6, Mono: f.mono, Boot: f.mono}
}
func (fixed) Sleep(context.Context, time.Duration) error { panic("nothing here sleeps") }

func (s *state) clock(ahead int8) fixed {
	return fixed{at(s.tick + int64(ahead)), time.Duration(s.tick+1) * unit}
}

// ahead is how many clocks there are to read.
func (w *world) ahead() int8 {
	if w.exact {
		return 1
	}
	return apart + 1
}

var layout = snowflake.Layout{Epoch: snowflake.DefaultEpoch, TimeBits: 41, WorkerBits: 1, SequenceBits: 21}

const (
	forever  = zkreg.DefaultRoot + "/leaf_forever"
	released = zkreg.DefaultRoot + "/leaf_released"
	taken    = forever + "/worker-0000000001" // where there is one worker ID
)

// reached tells that every daemon that runs reaches ZooKeeper, before time passes.
func (w *world) reached() bool { return w.copies || w.forces && !w.away }

// elsewhere is another root.
const elsewhere = "/other"

func (w *world) config(s *state, session int, c, draw int8, root string) zkreg.Config {
	return zkreg.Config{
		Root: root, Node: "n", Address: "10.0.0.1:80", Layout: layout, Threshold: unit * apart / 2, Lease: lease * unit, Clock: s.clock(c), SessionTimeout: zkreg.DefaultSessionTimeout,
		Servers: []string{"memory:1"}, Dial: func(zksession.Config) (zkreg.Session, error) {
			one := s.zk.Session(session)
			if session == operator {
				return one, nil
			}
			if w.session != nil {
				one = w.session(one)
			}
			if w.ids > 1 {
				one = exploretest.Drawing(one, int64(draw))
			}
			return one, nil
		},
	}
}

var sessionConfig = zksession.Config{Servers: []string{"memory:1"}, Timeout: zkreg.DefaultSessionTimeout, Unreachable: worker.ErrUnreachable}

// operator is the first session.
const operator = 1

func (w *world) directory(s *state) *zkreg.Directory {
	d, err := zkreg.OpenDirectory(w.config(s, operator, 0, 0, zkreg.DefaultRoot))
	if err != nil {
		panic(err)
	}
	return d
}

// first is the first state: a cluster that was just made.
func (w *world) first() *state {
	w.dirs, w.ids = max(w.dirs, 2), max(w.ids, 1)
	s := &state{copied: -1}
	s.zk = sessiontest.NewMemory(s.clock(0))
	if _, err := s.zk.Open(sessionConfig); err != nil {
		panic(err)
	}
	if _, err := w.directory(s).Init(context.Background(), time.Duration(max(lease, w.longer))*unit, 0, true); err != nil {
		panic(err)
	}
	w.plant(s)
	return s
}

// plant sees to it that there is one worker ID only, where that is wanted: the layout has two.
func (w *world) plant(s *state) {
	if w.ids == 2 && !w.java {
		return
	}
	o := s.zk.Session(operator)
	if w.java {
		_, _ = sessiontest.Create(context.Background(), o, forever+"/10.0.0.9:1-0000000000", []byte(`{"ip":"10.0.0.9","port":"1","timestamp":5}`), 0)
		return
	}
	if found, _, _ := o.Exists(context.Background(), taken); found {
		return
	}
	data := fmt.Sprintf(`{"ip":"10.0.0.9","port":"1","timestamp":0,"node":"z","ceiling":0,"floor":0,"limit":%d,"instance":"z","owner":"z","life":1,"state":"active"}`, at(1<<20))
	_, _ = sessiontest.Create(context.Background(), o, taken, []byte(data), 0) // where there is no parent there is nothing to plant
}

// clone returns a copy of s with ZooKeeper's clock ahead.
func (s *state) clone(zc int8) *state {
	c := *s
	c.zk = s.zk.Clone(s.clock(zc))
	return &c
}

// reach is how far ahead of now the piece of r, acknowledged and not released, goes; in units.
func (s *state) reach(r worker.Record) float64 {
	if r.WorkerID < 0 || r.State != worker.RecordActive {
		return -1
	}
	return float64(r.AckedLimit-at(s.tick)) / float64(unit.Milliseconds())
}

// told is the record by which d would act now.
func (d *dir) told() worker.Record {
	switch d.phase {
	case running:
		return d.rec
	case starting:
		return d.life.Record()
	default:
		return d.file
	}
}

// ends is what a step of directory f works with.
func (w *world) ends(s *state, f int, e event) worker.HoldingEnds {
	d := &s.dirs[f]
	root := zkreg.DefaultRoot
	if d.strayed {
		root = elsewhere
	}
	reg, err := zkreg.Open(w.config(s, d.session, e.c, e.draw, root))
	if err != nil {
		panic(err)
	}
	long := lease
	if e.long {
		long = w.longer
	}
	settled := time.Duration(apart+1) * unit
	if w.settle != nil && !w.settle(d.told()) {
		settled = 0
	}
	if !d.life.Record().Reaches(0, 0) {
		long += w.jump
	}
	return worker.HoldingEnds{
		Registry: looking{reg, w, s}, Clock: s.clock(e.c), Owner: d.owner, Margin: apart * unit, Lease: time.Duration(long) * unit,
		Judged: at(s.tick + int64(e.c)), Settled: settled, Decide: w.decided, Split: w.split,
		Save: func(r worker.Record) {
			if d.phase == running { // its piece is the process's
				d.rec.Acked, d.rec.Current = r.Acked, r.Current
				r = d.rec
			}
			d.file, d.filed = r, true
		},
	}
}

// looking is a registry with a rule taken out of what it shows.
type looking struct {
	worker.Registry
	w *world
	s *state
}

// Claim implements worker.Registry.
func (l looking) Claim(ctx context.Context, s worker.Snapshot, me worker.Record, now clock.Millis) (worker.Snapshot, error) {
	l.s.drew = true
	return l.Registry.Claim(ctx, s, me, now)
}

func (l looking) Look(ctx context.Context, r worker.Record) (worker.Snapshot, error) {
	s, err := l.Registry.Look(ctx, r)
	if err == nil && l.w.snapshot != nil {
		l.w.snapshot(&s)
	}
	return s, err
}

// decided is Decide, or what a rule taken out makes of it.
func (w *world) decided(r worker.Record, s worker.Snapshot, now worker.Moment) worker.Action {
	if s.Root != nil && s.Root.Parent != 0 && s.Root.Parent == s.Parent {
		c := worker.CellOf(r, s, now)
		w.cells[c.Row][c.Column].Add(1)
	}
	if w.decide != nil {
		return w.decide(r, s, now)
	}
	return worker.Decide(r, s, now)
}

const (
	twice     = "DUPLICATE: one time of a worker ID by two holders"
	displaced = "AVAILABILITY: a holder whose piece reaches well beyond its now loses its worker ID"
	undone    = "FORCE: a piece that an operator released goes on"
	closed    = "FORCE: it is taken for a loss of data"
	costly    = "BOUND: a step takes more requests than a claim may"

	mostRequests = 40
)

// lostIt tells that directory f, which had had, lost what it holds.
func (w *world) lostIt(s *state, f int, had worker.Record) string {
	now := s.dirs[f].told()
	if w.unavailable || s.copied >= 0 || s.forced.Instance == had.Instance || s.reach(had) <= 3*apart || now.WorkerID == had.WorkerID && now.State == worker.RecordActive && now.Instance == had.Instance {
		return ""
	}
	return displaced
}

// stands tells that the piece which an operator released stands as state has it.
func (s *state) stands(state worker.EntryState) bool {
	data, _, err := s.zk.Session(operator).Get(context.Background(), fmt.Sprintf("%s/worker-%010d", forever, s.forced.WorkerID))
	p := decoded(data)
	return err == nil && p.State == string(state) && p.Instance == s.forced.Instance && p.Floor == s.forced.Floor
}

// end ends the process of directory f.
func (s *state) end(f int) {
	d := &s.dirs[f]
	if one := s.zk.Session(d.session); one != nil {
		s.zk.Kill(one)
	}
	*d = dir{filed: d.filed, member: d.member, knows: d.knows, dead: d.dead, forced: d.forced, file: d.file}
}

// run makes directory f's process, which there may have to be first, take a step, or report. It
// returns how many writes that took, whether ZooKeeper's clock was asked, and what is wrong.
func (w *world) run(from *state, e event) (s *state, writes int, asked bool, wrong string) {
	s = from.clone(e.zc)
	s.drew = false
	f := int(e.dir)
	d := &s.dirs[f]
	if d.phase == off {
		w.start(s, f)
	}
	session := s.zk.Session(d.session)
	if e.kind == unreached {
		s.zk.Fail(session, 1, sessiontest.NotSent)
	}
	if e.fault != 0 {
		s.zk.FailWrite(session, int(e.write), e.fault)
	}
	requests := 0
	s.zk.Observe(func(r sessiontest.Request) {
		if requests++; requests > mostRequests {
			wrong = costly
		}
		if r.Write() {
			writes++
			asked = asked || strings.HasPrefix(r.String(), "set "+released+"@")
		}
	})
	had := d.told()
	knew := d.knows
	if e.kind == endsStart {
		d.life.GiveBack(context.Background(), w.ends(s, f, e))
		s.zk.Observe(nil)
		s.end(f)
		return s, writes, asked, wrong
	}
	if died := w.act(s, f, e); died {
		s.end(f)
	}
	s.zk.Observe(nil)
	s.zk.Heal(session)
	if g := &s.dirs[f]; g.phase == running {
		g.silent = false
	} else if writes > 0 || g.phase == starting && g.life.Watches() && (from.dirs[f].phase == off || !from.dirs[f].life.Watches()) {
		for g := range s.dirs {
			s.dirs[g].silent = s.dirs[g].phase == running
		}
	}
	if had := had; e.kind == steps || e.kind == reports && had.State == worker.RecordActive {
		wrong = w.lostIt(s, f, had)
	}
	if knew && e.kind != unreached && written(from) != written(s) {
		s.found = true
	}
	if s.forced.Instance != "" && from.stands(worker.StateReleased) && s.stands(worker.StateActive) {
		wrong = undone
	}
	if w.away {
		if data, _, err := s.zk.Session(operator).Get(context.Background(), zkreg.DefaultRoot); err == nil && decoded(data).Losses > 0 {
			wrong = closed
		}
		d.forced = d.forced && (e.kind != steps || d.phase != running)
	}
	return s, writes, asked, wrong
}

// start starts a process in directory f, as Worker.load does.
func (w *world) start(s *state, f int) {
	d := &s.dirs[f]
	s.named++
	d.owner = fmt.Sprintf("o%d", s.named)
	one, err := s.zk.Open(sessionConfig)
	if err != nil {
		panic(err)
	}
	d.phase, d.session = starting, sessiontest.Number(one)
	me := d.file
	if !d.filed {
		me = w.fresh(s)
	}
	me.Owner = d.owner
	d.life = worker.NewHolding(me)
}

// fresh is the record of a new instance.
func (w *world) fresh(s *state) worker.Record {
	s.named++
	return worker.Record{
		Node: "n", Root: zkreg.DefaultRoot, Forever: forever, WorkerID: worker.NoWorkerID, Layout: layout.String(), Epoch: layout.Epoch, DirectoryID: "d", Instance: fmt.Sprintf("i%d", s.named), Born: begin,
	}
}

// act takes the step; true where that ends the process.
func (w *world) act(s *state, f int, e event) (died bool) {
	d := &s.dirs[f]
	defer func() {
		if r := recover(); r != nil {
			if _, killed := r.(sessiontest.Killed); !killed {
				panic(r)
			}
			died = true
		}
	}()
	ends := w.ends(s, f, e)
	ctx := context.Background()
	if w.reconnects {
		d.life.NoConnection(s.zk.Session(d.session).Connection())
	}
	if w.anyRoot {
		version, _ := versions(s.zk.Walk)
		d.life.AnyRoot(version)
	}
	if e.kind == reports {
		return w.report(ctx, s, f, e, ends)
	}
	if e.kind == releases {
		return w.release(ctx, s, f, e, ends)
	}
	done, setAside, err := d.life.Step(ctx, ends)
	switch {
	case done:
		d.phase, d.rec = running, d.life.Record()
		d.member = true
		if e.unsafe {
			return true
		}
		d.file, d.filed = d.rec, true
		w.show(ctx, ends.Registry, d)
	case setAside != nil:
		d.filed, d.file = false, worker.Record{}
		me := w.fresh(s)
		me.Owner = d.owner
		d.life = worker.NewHolding(me)
		d.member = false
	case err == nil, errors.Is(err, worker.ErrChanged):
		d.member = d.member || d.life.Record().Cluster != ""
	case errors.Is(err, worker.ErrUnreachable):
		d.member = d.member || d.life.Record().Cluster != ""
		if worker.MayGoOffline(w.offline(s, e.c), d.life.Record()) == nil && !d.life.Watches() && !w.reached() {
			d.phase, d.rec = running, d.life.Record()
			d.file, d.filed = d.rec, true
			d.life = worker.NewHolding(worker.Record{})
		}
	default:
		return true
	}
	return false
}

func (w *world) offline(s *state, c int8) worker.Config {
	return worker.Config{Clock: s.clock(c), Threshold: unit * apart / 2}
}

// show shows that d's process is live, where that can matter to another one.
func (w *world) show(ctx context.Context, r worker.Registry, d *dir) {
	if !w.copies && !w.shown {
		return
	}
	me := d.rec
	me.Owner = d.owner
	if err := r.Show(ctx, me, true); err != nil {
		panic(err) // nothing disturbs a world with copies
	}
}

func (w *world) report(ctx context.Context, s *state, f int, e event, ends worker.HoldingEnds) (died bool) {
	d := &s.dirs[f]
	r := d.rec
	r.Owner, r.Timestamp = d.owner, at(s.tick+int64(e.c))
	got, err := d.life.Report(ctx, ends, r)
	switch {
	case err == nil:
		d.rec.Adopt(got)
		if e.unsafe {
			return true
		}
		d.file = d.rec
		w.show(ctx, ends.Registry, d)
	case errors.Is(err, worker.ErrFenced):
		// What its file says may be another's: the next life in this process doesn't go by it alone.
		had := d.rec
		s.end(f)
		if !w.unavailable && s.reach(had) > 3*apart && s.copied < 0 && s.forced.Instance != had.Instance {
			s.odd = displaced
		}
		return false
	}
	return false
}

// release is Worker.Close with ReleaseOnStop.
func (w *world) release(ctx context.Context, s *state, f int, e event, ends worker.HoldingEnds) bool {
	d := &s.dirs[f]
	r := d.rec
	r.Owner, r.Timestamp = d.owner, at(s.tick+int64(e.c))
	r.Ceiling = at(s.tick+apart) + 1
	r.Releasing()
	r.Ceiling = d.rec.Ceiling // nothing here goes by it
	d.rec = r
	if !w.entryFirst {
		d.file = r
	}
	if e.unsafe && !w.entryFirst { // killed before ZooKeeper has it
		return true
	}
	got, err := d.life.Report(ctx, ends, r)
	if err == nil && !w.entryFirst {
		d.rec.Adopt(got)
		d.file = d.rec
	}
	return true
}

// Next implements exploretest.System.
func (w *world) Next(s *state, out func(e event, to *state, wrong string)) {
	emit := func(e event, to *state, wrong string) {
		w.kinds[e.kind].Add(1)
		if wrong = cmp.Or(wrong, to.odd); wrong == "" {
			wrong = w.issue(to)
		}
		w.tidy(to)
		out(e, to, wrong)
	}
	w.environment(s, emit)
	for f := range w.dirs {
		w.daemon(s, f, emit)
	}
}

// issue marks what running daemons may issue now.
func (w *world) issue(s *state) string {
	for f := range w.dirs {
		d := &s.dirs[f]
		if d.phase != running {
			continue
		}
		for t := range int64(apart + 1) {
			if now := at(s.tick + t); now < d.rec.Floor || now >= min(d.rec.Limit, d.file.Limit) {
				continue
			}
			m := &s.marks[d.rec.WorkerID][t]
			mine := mark{d.rec.Instance, int8(f)}
			other := m.instance != "" && *m != mine && m.dir != mine.dir
			if other && m.instance == mine.instance && s.dirs[m.dir].phase != running {
				other = false // it begins at its ceiling
			}
			if other {
				return twice
			}
			*m = mine
		}
	}
	return ""
}

// tidy forgets what can't matter any more.
func (w *world) tidy(s *state) {
	w.plant(s)
	if int(s.losses) == w.losses {
		s.backup = nil
	}
	for f := range w.dirs {
		if d := &s.dirs[f]; d.phase == starting && !d.strayed && d.life.Held() == nil && !d.life.Watches() && !w.settles(s, d) && (!w.lost && !w.copies || same(d.life.Record(), d.file, d.filed)) {
			s.end(f) // it begins where one does that is started now
		}
	}
	relevant := false
	for f := range w.dirs {
		relevant = relevant || w.relevant(s, f)
	}
	if s.rested && (s.found || !relevant) {
		s.rested, s.found = false, false
		for f := range s.dirs {
			s.dirs[f].knows = false
		}
	}
	if !s.rested {
		s.found = false
	}
}

// written is the last write of the root, or of an entry.
func written(s *state) (mzxid int64) {
	s.zk.Walk(func(p string, n sessiontest.Node) {
		if p == zkreg.DefaultRoot || ofLayout(p) {
			mzxid = max(mzxid, n.Stat.Mzxid)
		}
	})
	return mzxid
}

// settles tells that what d waits for is still as it was written, or may be again.
func (w *world) settles(s *state, d *dir) bool {
	root, entry, conn, _ := d.life.Settling()
	if entry == 0 || conn != s.zk.Session(d.session).Connection() && !w.reconnects {
		return false
	}
	version, entries := versions(s.zk.Walk)
	if (version == root || w.anyRoot) && slices.Contains(entries, entry) {
		return true
	}
	if w.reconnects && s.backup != nil {
		version, entries = versions(s.backup.Walk)
	}
	return version == root && slices.Contains(entries, entry)
}

// versions are the root's, and the zxids of the entries' last writes.
func versions(walk func(func(string, sessiontest.Node))) (root int32, entries []int64) {
	root = -1
	walk(func(p string, n sessiontest.Node) {
		switch {
		case p == zkreg.DefaultRoot:
			root = n.Stat.Version
		case ofLayout(p):
			entries = append(entries, n.Stat.Mzxid)
		}
	})
	return root, entries
}

// same tells that a life which goes by r begins where one does that is started now.
func same(r, file worker.Record, filed bool) bool {
	if !filed {
		return r.Cluster == "" && r.WorkerID == worker.NoWorkerID && r.Current.Owner == ""
	}
	return r.Cluster == file.Cluster && r.WorkerID == file.WorkerID && r.State == file.State && r.Floor == file.Floor && r.Limit == file.Limit &&
		r.AckedLimit == file.AckedLimit && r.Acked == file.Acked && r.Current == file.Current && r.Instance == file.Instance && r.Losses == file.Losses && r.Ceiling == file.Ceiling
}

// relevant tells that directory f knows what a ZooKeeper that was set back doesn't, and has a
// piece, or has just issued.
func (w *world) relevant(s *state, f int) bool {
	d := &s.dirs[f]
	if !d.knows || d.dead {
		return false
	}
	if s.reach(d.told()) > 0 {
		return true
	}
	for _, times := range s.marks {
		if slices.ContainsFunc(times[:], func(m mark) bool { return m.instance != "" && int(m.dir) == f }) {
			return true
		}
	}
	return false
}

// environment is what happens beside the daemons.
func (w *world) environment(s *state, emit func(e event, to *state, wrong string)) {
	w.passing(s, emit)
	if int(s.losses) < w.losses {
		w.losing(s, emit)
	}
	if w.open && s.losses > 0 {
		for zc := range w.ahead() {
			w.opening(s, event{kind: opens, zc: zc}, emit)
		}
	}
	w.copying(s, emit)
	w.forcing(s, emit)
	for i, late := range s.zk.Late() {
		to := s.clone(0)
		_ = to.zk.Deliver(late.ID)
		emit(event{kind: delivers, to: int8(i)}, to, "")
	}
}

// passing is a unit of time.
func (w *world) passing(s *state, emit func(e event, to *state, wrong string)) {
	to := *s
	for f := range to.dirs {
		d := &to.dirs[f]
		if w.reached() && d.phase == running && d.silent {
			return // it reaches ZooKeeper, and reports
		}
		d.silent = d.phase == running
	}
	to.tick++
	to.zk = s.zk.Clone(to.clock(0))
	to.zk.Late() // sessions that are over end
	for i := range to.marks {
		copy(to.marks[i][:], to.marks[i][1:])
		to.marks[i][apart] = mark{}
	}
	emit(event{kind: passes}, &to, "")
}

// copying copies a directory.
func (w *world) copying(s *state, emit func(e event, to *state, wrong string)) {
	if w.copies && s.copied < 0 {
		for f := range w.dirs {
			for g := range w.dirs {
				if f != g && s.dirs[g].phase == off && !s.dirs[g].member && !s.dirs[g].filed && s.dirs[f].filed && (s.dirs[f].file.State == worker.RecordActive || s.dirs[f].file.State == worker.RecordClaiming) {
					to := s.clone(0)
					to.dirs[g] = dir{filed: true, member: true, file: s.dirs[f].file}
					to.copied = int8(g)
					emit(event{kind: copies, dir: int8(f), to: int8(g)}, to, "")
				}
			}
		}
	}
}

// forcing is an operator's `worker release --force`.
func (w *world) forcing(s *state, emit func(e event, to *state, wrong string)) {
	if !w.forces || s.forced.Instance != "" {
		return
	}
	entries, err := w.directory(s.clone(0)).Entries(context.Background())
	if err != nil {
		return
	}
	for _, was := range entries {
		if was.State != worker.StateActive || was.Instance == "z" {
			continue
		}
		for zc := range w.ahead() {
			to := s.clone(zc)
			if _, err := w.directory(to).Release(context.Background(), was.WorkerID, true); err != nil {
				continue
			}
			holds := func(d dir) bool { return d.told().Instance == was.Instance }
			if i := slices.IndexFunc(to.dirs[:], holds); w.away {
				if i < 0 || to.dirs[i].phase != off {
					continue // the operator is wrong
				}
				to.dirs[i].forced = true
			}
			to.forced = worker.Entry{WorkerID: was.WorkerID, Instance: was.Instance, Floor: was.Floor}
			for f := range w.dirs {
				to.dirs[f].silent = to.dirs[f].phase == running
			}
			emit(event{kind: forces, zc: zc}, to, "")
		}
	}
}

// losing is what ZooKeeper may lose.
func (w *world) losing(s *state, emit func(e event, to *state, wrong string)) {
	if (w.restore || w.alone) && (s.backup == nil || !w.oneBak) {
		to := s.clone(0)
		to.backup = s.zk.Backup()
		emit(event{kind: backsUp}, to, "")
	}
	if w.restore && s.backup != nil {
		for zc := range w.ahead() {
			to := s.clone(zc)
			to.losses++
			to.zk.Restore(s.backup, to.zk.Zxid())
			if w.makes(to) {
				if _, err := w.directory(to).Recover(context.Background()); err == nil {
					emit(event{kind: restores, zc: zc}, to, "")
				}
			}
		}
	}
	if w.alone && s.backup != nil {
		to := s.clone(0)
		to.losses++
		to.zk.Restore(s.backup, to.zk.Zxid())
		to.rested, to.found = true, false
		for f := range w.dirs {
			to.dirs[f].knows = w.knows(to, f)
		}
		emit(event{kind: restoresRaw}, to, "")
	}
	if w.wipe {
		to := s.clone(0)
		to.losses++
		zxid := to.zk.Zxid()
		empty := sessiontest.NewMemory(to.clock(0)).Backup()
		to.zk.Restore(empty, zxid)
		emit(event{kind: wipes}, to, "")
	}
	if w.partial {
		to := s.clone(0)
		to.losses++
		o := to.zk.Session(operator)
		names, _, err := o.Children(context.Background(), forever)
		if err == nil {
			for _, name := range names {
				_ = sessiontest.Remove(context.Background(), o, forever+"/"+name, -1)
			}
			_ = sessiontest.Remove(context.Background(), o, forever, -1)
			emit(event{kind: loses}, to, "")
		}
	}
}

// makes tells whether the root stands and names its parent.
func (w *world) makes(s *state) bool {
	status, err := w.directory(s).Status(context.Background())
	return err == nil && status.Parent != 0 && status.Parent == status.Root.Parent
}

// knows tells whether directory f finds out that ZooKeeper was set back.
func (w *world) knows(s *state, f int) bool {
	d := &s.dirs[f]
	r := d.told()
	if d.dead || r.Cluster == "" {
		return false
	}
	seen, err := w.directory(s.clone(0)).Look(context.Background(), r)
	if err != nil {
		return false
	}
	if seen.Root == nil || seen.Root.Parent == 0 || seen.Root.Parent != seen.Parent {
		seen.Root = &worker.Root{Parent: 1}
		seen.Parent, seen.Entry = 1, nil
	}
	do := worker.Decide(r, seen, worker.Moment{Clock: at(s.tick), Margin: apart * unit, Running: d.phase == running})
	return do == worker.NoteLoss || do == worker.SetAside && r.State != worker.RecordClaiming || do == worker.Fence && seen.Entry != nil && seen.Entry.Instance == r.Instance
}

// opening is `cluster open`, where the operator is right: every instance that has a piece, and
// is not as the entries show it, is dead.
func (w *world) opening(s *state, e event, emit func(e event, to *state, wrong string)) {
	status, err := w.directory(s).Status(context.Background())
	if err != nil || status.Parent == 0 || status.Parent != status.Root.Parent || status.Floor <= at(s.tick+int64(e.zc)+apart)+1 {
		return
	}
	to := s.clone(e.zc)
	for f := range w.dirs {
		d := &to.dirs[f]
		r := d.told()
		if d.dead || s.reach(r) <= 0 {
			continue
		}
		seen, err := w.directory(to).Look(context.Background(), r)
		if err != nil {
			return
		}
		if e := seen.Entry; e != nil && e.Instance == r.Instance && e.State == worker.StateActive && e.Floor == r.Floor && e.Limit >= r.AckedLimit {
			continue
		}
		if d.phase != off {
			return // the operator is wrong
		}
		*d = dir{dead: true}
	}
	if _, err := w.directory(to).Open(context.Background()); err != nil {
		return
	}
	emit(e, to, "")
}

// daemon is what directory f's process may do, disturbed or not.
func (w *world) daemon(s *state, f int, emit func(e event, to *state, wrong string)) {
	d := &s.dirs[f]
	me := int8(f)
	if d.dead {
		return
	}
	if d.phase != off {
		to := s.clone(0)
		to.end(f)
		emit(event{kind: crashes, dir: me}, to, "")
	}
	if w.roots && d.phase == off && d.filed {
		to := s.clone(0)
		if w.anyPlace || worker.CheckRoot(d.file, elsewhere, elsewhere+"/leaf_forever") == nil {
			w.start(to, f)
			to.dirs[f].strayed = true
		}
		emit(event{kind: strays, dir: me}, to, "")
	}
	if w.endings && d.phase == starting {
		to, _, _, wrong := w.run(s, event{kind: endsStart, dir: me})
		emit(event{kind: endsStart, dir: me}, to, wrong)
	}
	if d.phase == off && d.filed && !w.reached() && !d.forced && worker.MayGoOffline(w.offline(s, 0), d.file) == nil {
		to := s.clone(0)
		w.start(to, f)
		g := &to.dirs[f]
		g.phase, g.rec = running, g.life.Record()
		g.file, g.life = g.rec, worker.NewHolding(worker.Record{})
		emit(event{kind: startsAlone, dir: me}, to, "")
	}
	for c := range w.ahead() {
		if d.phase == starting && !d.forced && worker.MayGoOffline(w.offline(s, c), d.life.Record()) == nil && d.life.Held() == nil {
			to, _, _, wrong := w.run(s, event{kind: unreached, dir: me, c: c})
			emit(event{kind: unreached, dir: me, c: c}, to, wrong)
		}
		if d.phase == starting || d.phase == off {
			w.disturbed(s, event{kind: steps, dir: me, c: c}, emit)
		}
		if d.phase == running {
			w.disturbed(s, event{kind: reports, dir: me, c: c}, emit)
		}
		if d.phase == running && w.releases && c == 0 && d.rec.State == worker.RecordActive {
			w.disturbed(s, event{kind: releases, dir: me, c: c}, emit)
		}
	}
}

// disturbed has e happen with each clock of ZooKeeper's, each lease, and each fault.
func (w *world) disturbed(s *state, e event, emit func(e event, to *state, wrong string)) {
	for _, long := range []bool{false, true} {
		if long && w.longer == 0 {
			break
		}
		e.long = long
		for zc := range w.ahead() {
			e.zc, e.draw = zc, 0
			to, writes, asked, wrong := w.run(s, e)
			drew := to.drew
			if !w.excludes(s, to, int(e.dir)) {
				emit(e, to, wrong)
				w.faults(s, to, e, writes, emit)
			}
			for e.draw = 1; drew && int(e.draw) < w.ids; e.draw++ {
				if to, writes, _, wrong := w.run(s, e); !w.excludes(s, to, int(e.dir)) {
					emit(e, to, wrong)
					w.faults(s, to, e, writes, emit)
				}
			}
			if !asked {
				break
			}
		}
	}
}

// excludes tells of a claim that settles where the promise does not hold: ZooKeeper was set back
// without recover, and no daemon that knows better has come.
func (w *world) excludes(s, to *state, f int) bool {
	if w.included || !s.rested || s.found || s.dirs[f].phase == running || to.dirs[f].phase != running {
		return false
	}
	if s.dirs[f].told().State == worker.RecordActive {
		return false
	}
	for g := range w.dirs {
		if g != f && w.relevant(s, g) {
			return true
		}
	}
	return false
}

func (w *world) faults(s, done *state, e event, writes int, emit func(e event, to *state, wrong string)) {
	try := func(e event) {
		to, _, _, wrong := w.run(s, e)
		if !w.excludes(s, to, int(e.dir)) {
			emit(e, to, wrong)
		}
	}
	if w.crashes && (done.dirs[e.dir].phase == running || e.kind == releases) {
		e := e
		e.unsafe = true
		try(e)
	}
	for n := 1; n <= writes; n++ {
		e.write = int8(n)
		if w.crashes {
			for _, e.fault = range []sessiontest.Fault{sessiontest.KilledBefore, sessiontest.KilledAfter} {
				try(e)
			}
		}
		if w.lost {
			e.fault = sessiontest.AnswerLost
			try(e)
		}
		if w.late && len(s.zk.Late()) == 0 {
			e.fault = sessiontest.SentLate
			try(e)
		}
	}
}

// payload is what an entry, or the root, has.
type payload struct {
	Floor, Ceiling, Limit clock.Millis
	Instance, Owner       string
	Life                  int64
	State                 string
	ParentCzxid           int64        `json:"parent_czxid"`
	LostAt                clock.Millis `json:"lost_at"`
	Losses                int64
	Over                  *worker.Over
	Free                  bool
}

func decoded(data []byte) (p payload) {
	if len(data) > 0 {
		if err := json.Unmarshal(data, &p); err != nil {
			panic(err)
		}
	}
	return p
}

var _ exploretest.System[*state, event] = (*world)(nil)
