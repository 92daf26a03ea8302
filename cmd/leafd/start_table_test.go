package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
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
	entry  znode         // what ZooKeeper has of it
}

// path is where the entry of the record stands.
func (s *startCell) path() string {
	return fmt.Sprintf("%s/%s-%010d", s.o.forever, s.m.addr, tableWorker)
}

// newStartCell has a daemon's record of a minute ago, and the entry that goes with it.
func newStartCell(t *testing.T) *startCell {
	t.Helper()
	c := onShared(t)
	s := &startCell{t: t, c: c, o: c.watch(), m: c.machine()}
	var root struct{ Cluster string }
	require.NoError(t, json.Unmarshal([]byte(s.o.must(c.root).text), &root))
	at := s.m.now().Add(-time.Minute)
	life, instance := uuid.NewString(), uuid.NewString()
	s.record = worker.Record{
		Cluster: root.Cluster, Node: s.m.addr, WorkerID: tableWorker, Layout: "41+10+12", Epoch: snowflake.DefaultEpoch,
		Timestamp: at, Ceiling: at, Registered: at, Owner: life, Acked: life, Current: life,
		Instance: instance, Born: at.Add(-time.Hour), Floor: at.Add(-time.Hour), Limit: at.Add(6 * time.Hour), Confirmed: true,
	}
	s.entry = znode{
		IP: "127.0.0.1", Port: "1", Timestamp: at, Ceiling: at, Floor: s.record.Floor, Limit: s.record.Limit,
		Instance: instance, Owner: life, State: string(worker.StateActive),
	}
	return s
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

// startRows are what a start finds in its directory.
var startRows = map[string]func(s *startCell){
	"none": func(*startCell) {},
	"unreadable": func(s *startCell) {
		s.save()
		require.NoError(s.t, os.Truncate(filepath.Join(s.m.dataDir(), "worker.json"), 100))
	},
	"limit ahead": func(s *startCell) { s.save() },
	"limit passed": func(s *startCell) {
		s.record.Limit = s.record.Timestamp.Add(30 * time.Second)
		s.entry.Limit = s.record.Limit
		s.save()
	},
	"released": func(s *startCell) {
		s.record.Released, s.record.Limit = true, s.record.Ceiling
		s.entry.State, s.entry.Limit = string(worker.StateReleased), s.record.Limit
		s.save()
	},
	"unconfirmed": func(s *startCell) { // as a claim leaves it that was cut short
		s.record.WorkerID, s.record.Confirmed, s.record.Floor, s.record.Limit = worker.NoWorkerID, false, 0, 0
		s.save()
	},
	"other home": func(s *startCell) {
		original := s.m.dir
		s.save()
		s.m.dir = s.t.TempDir()
		require.NoError(s.t, os.CopyFS(s.m.dir, os.DirFS(original)))
	},
}

// startColumns are what it finds in ZooKeeper.
var startColumns = map[string]func(s *startCell){
	"away": func(s *startCell) {
		s.ours()
		s.m.zk = append(s.m.zk, "--zk", "127.0.0.1:1")
	},
	"no root": func(s *startCell) { s.removeRoot() },
	"other cluster": func(s *startCell) {
		s.removeRoot()
		s.c.init()
	},
	"known life": func(s *startCell) { s.ours() },
	"other life": func(s *startCell) { // a copy of the directory was started
		s.entry.Owner, s.entry.State, s.entry.Limit = uuid.NewString(), string(worker.StateActive), s.m.now().Add(6*time.Hour)
		s.ours()
	},
	"entry gone": func(s *startCell) {
		s.ours()
		s.o.remove(s.path())
	},
	"entries lost": func(s *startCell) {
		s.ours()
		s.o.remove(s.path())
		s.o.remove(s.o.forever)
	},
}

func (s *startCell) ours() { s.o.create(s.path(), jsonText(s.t, s.entry), 0) }

func (s *startCell) removeRoot() {
	for _, path := range []string{s.o.forever, s.o.temporary, s.o.root} {
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
	waitsForCluster   = started{exit: cli.ExitFailure, says: "leafd cluster init --zk "}
	refused           = started{exit: cli.ExitHeld, says: "another cluster"}
	startsOffline     = started{workerID: tableWorker, same: true, alarms: []string{codeLost}, says: "starting from the local record"}
	resumes           = started{workerID: tableWorker, same: true}
	putsBack          = started{workerID: tableWorker, same: true, alarms: []string{codeDataLost}}
	waitsForOpen      = started{opened: true, workerID: 0, same: true, alarms: []string{codeDataLost}}
	getsAnother       = started{workerID: 1, same: true}
	losesWorkerID     = started{opened: true, workerID: 0, same: true, alarms: []string{codeDataLost, "worker_id_lost"}}
	losesItAlone      = started{opened: true, workerID: 1, same: true, alarms: []string{codeDataLost, "worker_id_lost"}}
)

// joins is a new instance that gets workerID.
func joins(workerID int64) started { return started{workerID: workerID} }

// setsAside is joins by a directory whose record is not to be gone by.
func setsAside(workerID int64) started {
	return started{workerID: workerID, alarms: []string{"record_set_aside"}, says: "it was set aside as worker.json.aside-"}
}

// startTable is the table of DESIGN 3. A directory without a record has no entry of its own.
var startTable = map[string]map[string]started{
	"none": {
		"away": waitsForZooKeeper, "no root": waitsForCluster, "other cluster": joins(0), "known life": joins(1),
	},
	"unreadable": {
		"away": waitsForZooKeeper, "no root": waitsForCluster, "other cluster": setsAside(0), "known life": setsAside(1),
	},
	"limit ahead": {
		"away": startsOffline, "no root": putsBack, "other cluster": refused,
		"known life": resumes, "other life": setsAside(1), "entry gone": putsBack, "entries lost": putsBack,
	},
	"limit passed": {
		"away": waitsForZooKeeper, "no root": losesWorkerID, "other cluster": refused,
		"known life": resumes, "other life": setsAside(1), "entry gone": losesItAlone, "entries lost": losesWorkerID,
	},
	"released": {
		"away": waitsForZooKeeper, "no root": waitsForOpen, "other cluster": refused,
		"known life": resumes, "other life": setsAside(1), "entry gone": getsAnother, "entries lost": waitsForOpen,
	},
	"unconfirmed": {
		"away": waitsForZooKeeper, "no root": waitsForOpen, "other cluster": refused,
		"known life": resumes, "other life": setsAside(1), "entry gone": getsAnother, "entries lost": waitsForOpen,
	},
	"other home": {
		"away": waitsForZooKeeper, "no root": waitsForCluster, "other cluster": setsAside(0),
		"known life": setsAside(1), "other life": setsAside(1), "entry gone": setsAside(1),
	},
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
	entry, stands, err := s.o.get(s.path())
	require.NoError(t, err)
	record, readable := cache.Peek(s.m.dataDir())
	args := frequent()
	switch {
	case want.says == waitsForCluster.says: // a slow machine's ZooKeeper answers in that time
		args = append(args, "--startup-timeout", "5s")
	case want.exit == cli.ExitFailure: // it waits until then
		args = append(args, "--startup-timeout", "2s")
	}
	l := s.m.start(args...)
	if want.opened {
		l.awaitLog("leafd cluster open --zk " + s.c.servers[0] + " --zk-root " + s.c.root)
		require.Equal(t, "starting", l.mustGet("/readyz").code())
		s.c.onMachine(newMachine(t), "cluster", "open", "--clock-threshold", "10ms").OK(t)
	}
	if want.exit != cli.ExitOK {
		l.exits(want.exit)
	} else {
		l.awaitStatus("/readyz", 200)
	}
	if want.alarms != nil || want.exit == cli.ExitOK {
		require.Equal(t, want.alarms, l.alarmCodes(want.alarms...), l.Log())
	}
	require.Contains(t, l.Log(), want.says)
	aside, err := filepath.Glob(filepath.Join(s.m.dataDir(), "worker.json.aside-*"))
	require.NoError(t, err)
	require.Equal(t, slices.Contains(want.alarms, "record_set_aside"), len(aside) == 1, aside)
	if want.exit != cli.ExitOK {
		after, err := cache.Peek(s.m.dataDir())
		require.Equal(t, readable == nil, err == nil)
		require.Equal(t, record, after, "the directory is left as it is")
		now, found, err := s.o.get(s.path())
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
		require.Equal(t, entry, s.o.must(s.path()), "it is its holder's")
	}
	require.Equal(t, cli.ExitOK, l.stop())
	after, err := cache.Peek(s.m.dataDir())
	require.NoError(t, err)
	require.Equal(t, want.workerID, after.WorkerID)
	require.Equal(t, got.Instance, after.Instance)
	require.True(t, after.Confirmed)
	require.False(t, after.Released)
	require.Greater(t, after.Limit, s.m.now())
}

var alarmInLog = regexp.MustCompile(`"alarm":"([a-z_]+)"`)

// alarmCodes returns the codes of the alarms in the log; nil for none. Those that a busy
// machine raises by itself are left out but where they are wanted (see raised, and a
// ZooKeeper that gets no processor for three seconds).
func (l *child) alarmCodes(wanted ...string) []string {
	var codes []string
	for _, match := range alarmInLog.FindAllStringSubmatch(l.Log(), -1) {
		if slices.Contains(wanted, match[1]) || !slices.Contains([]string{"report_failing", "peers_silent", codeLost}, match[1]) {
			codes = append(codes, match[1])
		}
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}
