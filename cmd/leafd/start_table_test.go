package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// tableWorker is the worker ID that the records of the start table have. ZooKeeper's next
// one is 1 where its entry stands or stood, and 0 in a tree that was made again.
const tableWorker = 3

// startCell is one start: of a directory with a record, in a state of ZooKeeper.
type startCell struct {
	t      *testing.T
	c      *cluster
	o      *onlooker
	m      *machine
	record worker.Record // what the directory has
	entry  znode         // what ZooKeeper acknowledged to it last
}

// newStartCell has a daemon's record of a minute ago, and the entry that goes with it.
func newStartCell(t *testing.T) *startCell {
	t.Helper()
	c := onShared(t)
	s := &startCell{t: t, c: c, o: c.watch(), m: c.machine()}
	var root struct{ Cluster string }
	require.NoError(t, json.Unmarshal([]byte(s.o.must(c.root).text), &root))
	at := s.m.now().Add(-time.Minute)
	life, instance := worker.Life{Owner: uuid.NewString(), Number: 5}, uuid.NewString()
	s.record = worker.Record{
		Cluster: root.Cluster, Root: c.root, Forever: c.root + "/leaf_forever", Servers: c.servers, Node: s.m.addr, WorkerID: tableWorker, Layout: "41+10+12", Epoch: snowflake.DefaultEpoch,
		Timestamp: at, Ceiling: at, Registered: at, Owner: life.Owner, Acked: life, Current: life,
		LongestLease: worker.DefaultLease, LongestSession: 6 * time.Second,
		Instance: instance, Born: at.Add(-time.Hour), State: worker.RecordActive,
	}
	s.entry = znode{
		Node: s.m.addr, IP: "127.0.0.1", Port: "1", Timestamp: at, Ceiling: at, Instance: instance, Owner: life.Owner, Life: life.Number,
		State: string(worker.StateActive),
	}
	s.piece(at.Add(-time.Hour), at.Add(6*time.Hour))
	return s
}

// piece is what ZooKeeper acknowledged.
func (s *startCell) piece(floor, limit clock.Millis) {
	s.record.Floor, s.record.Limit, s.record.AckedLimit = floor, limit, limit
	s.entry.Floor, s.entry.Limit = floor, limit
}

// save puts the record into the directory, as one of this very directory.
func (s *startCell) save() {
	s.t.Helper()
	dir, err := cache.Open(s.m.dataDir())
	require.NoError(s.t, err)
	s.record.DirectoryID, err = dir.DirectoryID()
	require.NoError(s.t, err)
	require.NoError(s.t, dir.Save(s.record))
	require.NoError(s.t, dir.Close())
}

// startRows are what a start finds in its directory. Those of a running daemon are
// TestEntryTouchedByOthersFences's, and others' of losses under load.
var startRows = map[string]func(s *startCell){
	"none": func(*startCell) {},
	"unreadable": func(s *startCell) {
		s.save()
		require.NoError(s.t, os.Truncate(filepath.Join(s.m.dataDir(), "worker.json"), 100))
	},
	"other directory": func(s *startCell) {
		original := s.m.dir
		s.save()
		s.m.dir = s.t.TempDir()
		require.NoError(s.t, os.CopyFS(s.m.dir, os.DirFS(original)))
	},
	"reaches": func(s *startCell) { s.save() },
	"ended": func(s *startCell) {
		s.piece(s.record.Floor, s.record.Timestamp.Add(30*time.Second))
		s.save()
	},
	"released": func(s *startCell) {
		s.piece(s.record.Floor, s.record.Ceiling)
		s.record.State, s.entry.State = worker.RecordReleased, string(worker.StateReleased)
		s.save()
	},
	"released in the file": func(s *startCell) {
		s.record.State, s.record.Limit = worker.RecordReleasing, s.record.Ceiling
		s.save()
	},
	"claim": func(s *startCell) { // cut short before it was promoted
		s.piece(s.record.Floor, s.record.Floor)
		s.record.State, s.entry.State = worker.RecordClaiming, string(worker.StateClaiming)
		s.save()
	},
}

// startColumns are what it finds in ZooKeeper: the root, and the entry of its worker ID.
var startColumns = map[string]func(s *startCell){
	"away": func(s *startCell) {
		s.stands(s.entry)
		s.m.zk = append(s.m.zk, "--zk", "127.0.0.1:1")
	},
	"no root": func(s *startCell) { s.removeRoot() },
	"other cluster": func(s *startCell) {
		s.removeRoot()
		s.c.init()
	},
	"parent gone": func(s *startCell) { s.o.remove(s.o.forever) },
	"parent made again": func(s *startCell) {
		s.o.remove(s.o.forever)
		s.o.create(s.o.forever, "", 0)
	},
	"absent": func(s *startCell) {
		s.stands(s.entry)
		s.o.remove(s.o.path(tableWorker))
	},
	"older": func(s *startCell) { // as a backup has it, of a life that nothing names any more
		older := s.entry
		older.Owner, older.Life, older.State = uuid.NewString(), s.entry.Life-2, string(worker.StateActive)
		older.Floor, older.Limit = s.entry.Floor.Add(-time.Hour), s.entry.Floor
		s.stands(older)
	},
	"own": func(s *startCell) { s.stands(s.entry) },
	"own, active": func(s *startCell) { // the answer to a promotion was lost
		s.entry.State, s.entry.Limit = string(worker.StateActive), s.m.now().Add(6*time.Hour)
		s.stands(s.entry)
	},
	"own, released": func(s *startCell) { // by an operator; or the answer to a release was lost
		s.entry.State, s.entry.Limit = string(worker.StateReleased), s.record.Ceiling
		s.stands(s.entry)
	},
	"unknown life": func(s *startCell) { // a copy of the directory was started
		s.entry.Owner, s.entry.Life, s.entry.State = uuid.NewString(), s.entry.Life+1, string(worker.StateActive)
		s.entry.Floor, s.entry.Limit = s.record.AckedLimit, s.m.now().Add(12*time.Hour)
		s.stands(s.entry)
	},
	"empty": func(s *startCell) { // another's claim, in a ZooKeeper that had lost ours
		s.another(worker.StateClaiming, s.record.Floor.Add(-time.Minute), s.record.Floor.Add(-time.Minute))
	},
	"before": func(s *startCell) {
		s.another(worker.StateActive, s.record.Floor.Add(-time.Hour), s.record.Floor)
	},
	"after": func(s *startCell) {
		s.another(worker.StateActive, s.record.AckedLimit, s.m.now().Add(12*time.Hour))
	},
}

// stands makes e the entry of the record's worker ID.
func (s *startCell) stands(e znode) { s.o.create(s.o.path(tableWorker), jsonText(s.t, e), 0) }

// another makes the entry another instance's, with that piece.
func (s *startCell) another(state worker.EntryState, floor, limit clock.Millis) {
	e := s.entry
	e.Node, e.Instance, e.Owner, e.Life = "another", uuid.NewString(), uuid.NewString(), 1
	e.State, e.Floor, e.Limit = string(state), floor, limit
	s.stands(e)
}

func (s *startCell) removeRoot() {
	for _, path := range []string{s.o.forever, s.o.temporary, s.o.root + "/leaf_released", s.o.root} {
		s.o.remove(path)
	}
}

// started is what becomes of a start.
type started struct {
	exit     int      // 0: it issues
	opened   bool     // once an operator has run cluster open, which it names
	workerID int64    // then
	same     bool     // it is the instance that the record is of
	alarms   []string // all that it raises
	says     string   // in its log
}

// What a start comes to.
var (
	waitsForZooKeeper = started{exit: cli.ExitFailure, alarms: []string{codeLost}, says: "the registry has to answer once"}
	waitsForCluster   = started{exit: cli.ExitFailure, says: "it has lost its data, or the ensemble is new"}
	refused           = started{exit: cli.ExitHeld, says: "another cluster"}
	startsOffline     = started{workerID: tableWorker, same: true, alarms: []string{codeLost}, says: "starting from the local record"}
	resumes           = started{workerID: tableWorker, same: true}
	putsBack          = started{workerID: tableWorker, same: true, alarms: []string{codeDataLost}}
	enrolls           = started{workerID: 1, same: true}
	givesUp           = started{workerID: 1, same: true, alarms: []string{"worker_id_lost"}, says: "which the local record has, is "}
)

// joins is a new instance that gets workerID.
func joins(workerID int64) started { return started{workerID: workerID} }

// setsAside is joins by a directory with a record that is not to be gone by.
func setsAside(workerID int64) started {
	return started{workerID: workerID, alarms: []string{"worker_id_lost"}, says: "it was set aside as worker.json.aside-"}
}

// notes is a start that finds that ZooKeeper lost data, and gets workerID once an operator has
// opened the cluster.
func notes(workerID int64) started {
	return started{opened: true, workerID: workerID, same: true, alarms: []string{codeDataLost}}
}

// forgets is notes where the worker ID was the record's, and can't be put back.
func forgets(workerID int64) started {
	s := notes(workerID)
	s.alarms = append(s.alarms, "worker_id_lost")
	return s
}

// startTable is the table of DESIGN 3, with what comes before it, and what a claim gets then.
// A directory without a record has no entry of its own.
var startTable = map[string]map[string]started{
	"none": {
		"away": waitsForZooKeeper, "no root": waitsForCluster, "other cluster": joins(0), "parent gone": {opened: true, alarms: []string{codeDataLost}}, "own": joins(1),
	},
	"unreadable": {
		"away": waitsForZooKeeper, "no root": waitsForCluster, "other cluster": setsAside(0), "own": setsAside(1),
	},
	"other directory": {
		"away": waitsForZooKeeper, "no root": waitsForCluster, "other cluster": setsAside(0),
		"absent": setsAside(1), "own": setsAside(1), "unknown life": setsAside(1),
	},
	"reaches": {
		"away": startsOffline, "no root": putsBack, "other cluster": refused, "parent gone": putsBack, "parent made again": putsBack,
		"absent": putsBack, "older": putsBack, "own": resumes, "own, released": givesUp, "unknown life": setsAside(1),
		"empty": putsBack, "before": putsBack, "after": givesUp,
	},
	"ended": {
		"away": waitsForZooKeeper, "no root": forgets(0), "other cluster": refused, "parent gone": forgets(0), "parent made again": forgets(0),
		"absent": forgets(1), "older": forgets(1), "own": resumes, "own, released": resumes, "unknown life": setsAside(1),
		"empty": forgets(1), "before": forgets(1), "after": givesUp,
	},
	"released": {
		"away": waitsForZooKeeper, "no root": notes(0), "other cluster": refused, "parent gone": notes(0), "parent made again": notes(0),
		"absent": notes(1), "older": notes(1), "own": resumes, "own, active": notes(1), "unknown life": setsAside(1),
		"empty": notes(1), "before": notes(1), "after": enrolls,
	},
	"released in the file": {
		"away": waitsForZooKeeper, "no root": notes(0), "other cluster": refused, "parent gone": notes(0), "parent made again": notes(0),
		"absent": notes(1), "older": notes(1), "own": resumes, "own, released": resumes, "unknown life": setsAside(1),
		"empty": notes(1), "before": notes(1), "after": enrolls,
	},
	"claim": {
		"away": waitsForZooKeeper, "no root": notes(0), "other cluster": refused, "parent gone": notes(0), "parent made again": notes(0),
		"absent": enrolls, "own": resumes, "own, active": resumes, "unknown life": setsAside(1),
		"empty": enrolls, "before": enrolls, "after": enrolls,
	},
}

// lives is the number of the last life that a start knows of.
func (want started) lives(r worker.Record) int64 {
	if !want.same {
		return 0
	}
	return r.Current.Number
}

func TestStartTable(t *testing.T) {
	t.Parallel()
	for row, columns := range startTable {
		for column, want := range columns {
			t.Run(row+", "+column, func(t *testing.T) {
				t.Parallel()
				s := newStartCell(t)
				startRows[row](s)
				startColumns[column](s)
				s.requireStart(want)
			})
		}
	}
}

// requireStart starts a daemon, which must come to what is wanted.
func (s *startCell) requireStart(want started) {
	t := s.t
	t.Helper()
	entry, stands, err := s.o.get(s.o.path(tableWorker))
	require.NoError(t, err)
	record, readable := cache.Peek(s.m.dataDir())
	args := frequent()
	if want.exit == cli.ExitFailure || want.says == waitsForCluster.says { // a slow machine's ZooKeeper answers in that time
		args = append(args, "--startup-timeout", "5s")
	}
	l := s.m.start(args...)
	if want.opened {
		l.awaitLog("gone for good: leafd cluster open")
		require.Equal(t, "starting", l.mustGet("/readyz").code())
		s.c.onMachine(newMachine(t), "cluster", "open", "--yes", "--clock-threshold", "10ms").OK(t)
	}
	if want.exit != cli.ExitOK {
		l.exits(want.exit)
	} else {
		l.awaitReady()
	}
	for _, code := range want.alarms {
		l.awaitLog(`"alarm":"` + code + `"`)
	}
	if want.alarms != nil || want.exit == cli.ExitOK {
		require.Equal(t, want.alarms, l.alarmCodes(want.alarms...), l.Log())
	}
	require.Contains(t, l.Log(), want.says)
	aside, err := filepath.Glob(filepath.Join(s.m.dataDir(), "worker.json.aside-*"))
	require.NoError(t, err)
	require.Equal(t, strings.HasPrefix(want.says, "it was set aside"), len(aside) == 1, aside)
	if want.exit != cli.ExitOK {
		after, err := cache.Peek(s.m.dataDir())
		require.Equal(t, readable == nil, err == nil)
		require.Equal(t, record, after, "the directory is left as it is")
		now, found, err := s.o.get(s.o.path(tableWorker))
		require.NoError(t, err)
		require.Equal(t, stands, found)
		require.Equal(t, entry, now, "nothing is written")
		return
	}
	got := l.info()
	require.Equal(t, want.workerID, got.ID)
	require.Equal(t, want.same, got.Instance == s.record.Instance)
	for _, id := range l.batch("/api/snowflake/get/a?n=100") {
		parts, err := snowflake.DefaultLayout().Decode(id)
		require.NoError(t, err)
		require.Equal(t, want.workerID, parts.Worker)
		require.GreaterOrEqual(t, parts.Time, s.record.Ceiling)
	}
	if stands && want.workerID != tableWorker {
		require.Equal(t, entry, s.o.must(s.o.path(tableWorker)), "it is its holder's")
	}
	require.Equal(t, cli.ExitOK, l.stop())
	after, err := cache.Peek(s.m.dataDir())
	require.NoError(t, err)
	require.Equal(t, want.workerID, after.WorkerID)
	require.Equal(t, got.Instance, after.Instance)
	require.Equal(t, worker.RecordActive, after.State)
	if want.says != startsOffline.says { // which has written nothing there
		require.Equal(t, after.Owner, after.Current.Owner)
		require.Greater(t, after.Current.Number, want.lives(s.record))
	}
	require.Greater(t, after.Limit, s.m.now())
}

var alarmInLog = regexp.MustCompile(`"alarm":"([a-z_]+)"`)

// alarmCodes returns the codes of the alarms in the log; nil for none. Those that a busy
// machine raises by itself are left out but where they are wanted (see raised, and a
// ZooKeeper that gets no processor for three seconds).
func (l *child) alarmCodes(wanted ...string) []string {
	var codes []string
	for _, match := range alarmInLog.FindAllStringSubmatch(l.Log(), -1) {
		if slices.Contains(wanted, match[1]) || !slices.Contains([]string{"ceiling_reached", "peers_silent", "workers_closed", codeLost}, match[1]) {
			codes = append(codes, match[1])
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}
