package worker_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// gridRow are the rows of the table by their names in the proof.
var gridRow = map[string]string{
	"running": "reaches, running", "stopping": "released in the file, stopping", "starting": "reaches, starting",
	"runningEnded": "ended, running", "ended": "ended, starting", "released": "released", "none": "none",
}

// gridAction are the actions by their names there.
var gridAction = map[string]worker.Action{
	"PutBack": worker.PutBack, "Report": worker.Report, "Release": worker.Release, "Resume": worker.Resume, "Enroll": worker.Enroll,
	"Forget": worker.Forget, "GiveUp": worker.GiveUp, "SetAside": worker.SetAside, "Fence": worker.Fence, "RunOut": worker.RunOut,
}

const (
	gridColumns = "lost own unknown after"
	gridMargin  = 2 * time.Millisecond
)

// Floors of the grid, and how far above each the limits are.
func gridPieces() (pieces [][2]clock.Millis) {
	for _, floor := range []clock.Millis{19, 20, 21} {
		for _, above := range []clock.Millis{0, 3, 10, 11} {
			pieces = append(pieces, [2]clock.Millis{floor, floor + above})
		}
	}
	return pieces
}

// gridRecord is the record, and the moment, that the grid names so.
func gridRecord(name string) (worker.Record, worker.Moment) {
	r := worker.Record{
		Cluster: "c", Instance: "ours", WorkerID: 7, Floor: 20, Limit: 30, AckedLimit: 30, Losses: 1,
		Acked: worker.Life{Owner: "acked", Number: 4}, Current: worker.Life{Owner: "current", Number: 5},
	}
	words := strings.Split(name, "+")
	switch r.State = worker.RecordState(words[0]); r.State {
	case "none":
		r.State, r.WorkerID, r.Floor, r.Limit, r.AckedLimit = "", worker.NoWorkerID, 0, 0, 0
	case worker.RecordClaiming:
		r.Limit, r.AckedLimit = 20, 20
	case worker.RecordReleasing:
		r.Limit = 23
	case worker.RecordReleased:
		r.Limit, r.AckedLimit = 23, 23
	case worker.RecordActive:
	}
	now := worker.Moment{Clock: 25, Margin: gridMargin}
	for _, word := range words[1:] {
		now.Running = now.Running || word == "running"
		if word == "ended" {
			now.Clock = 28
		}
	}
	return r, now
}

// gridEntry is the entry that words name, with that piece; of a claim over another entry, that has it.
// It is read as ZooKeeper's text is.
func gridEntry(t *testing.T, words []string, piece [2]clock.Millis) *worker.Entry {
	t.Helper()
	if words[0] == "absent" {
		return nil
	}
	text := map[string]any{"instance": "theirs", "owner": "theirs", "life": 1, "floor": piece[0], "limit": piece[1], "state": words[len(words)-1]}
	switch {
	case words[0] == "ours":
		text["instance"], text["state"], text["owner"], text["life"] = "ours", words[1], words[2], gridNumber(t, words[3])
	case words[0] == "theirs" && len(words) > 2:
		text["over"] = map[string]any{"instance": words[4], "state": words[5], "life": gridNumber(t, words[6]), "floor": piece[0], "limit": piece[1]}
		text["state"], text["floor"], text["limit"] = words[1], gridNumber(t, words[2]), gridNumber(t, words[2])
	}
	data, err := json.Marshal(text)
	require.NoError(t, err)
	e := worker.Entry{WorkerID: 7}
	require.NoError(t, json.Unmarshal(data, &e))
	return &e
}

func gridNumber(t *testing.T, word string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(word, 10, 64)
	require.NoError(t, err)
	return n
}

// released-never-resumes, claim-again, set-aside-always, late-release, loss-before-copy, ended-judges-loss,
// loss-noted-first, damaged-put-back, made-over, settles-first: the table of Decide, and its conditions over a grid
// of records and entries, are those that the proof of spec has: `make prove` holds them to its transitions.
func TestDecideIsTheProofs(t *testing.T) {
	text, err := os.ReadFile("../spec/decide.txt")
	require.NoError(t, err)
	columns := strings.Fields(gridColumns)
	letters := regexp.MustCompile(`^[loua]{12}$`)
	names, rows, cells, asked := []string(nil), []string(nil), 0, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "record: "):
			names = words[1:]
		case strings.HasPrefix(line, "row: "):
			rows = words[1:]
		case len(words) == 1+len(columns) && gridRow[words[0]] != "":
			for i, column := range columns {
				cells++
				for _, c := range worker.Cells() {
					if c.String() == gridRow[words[0]]+" / "+column {
						require.Equal(t, gridAction[words[1+i]], c.Action(), "%s", c)
					}
				}
			}
		case len(words) > len(names) && letters.MatchString(words[len(words)-1]):
			entry := words[:len(words)-len(names)]
			for i, want := range words[len(entry):] {
				r, now := gridRecord(names[i])
				for j, piece := range gridPieces() {
					asked++
					s := worker.Snapshot{Root: &worker.Root{Cluster: "c", Parent: 3, Losses: 2}, Parent: 3, Entry: gridEntry(t, entry, piece)}
					cell := worker.CellOf(r, s, now)
					row, column, _ := strings.Cut(cell.String(), " / ")
					require.Equal(t, gridRow[rows[i]], row, "%s", names[i])
					require.Equal(t, want[j:j+1], column[:1], "%s of piece %d to record %s: %s", entry, piece, names[i], cell)
					do := worker.Decide(r, s, now)
					require.Equal(t, cell.Action(), do, "%s", cell)
					s.Granted = 1 // longer than the root knows
					if slices.Contains([]worker.Action{worker.Report, worker.Resume, worker.PutBack, worker.Enroll}, do) {
						do = worker.RaiseSession
					}
					require.Equal(t, do, worker.Decide(r, s, now), "%s", cell)
					s.Granted, s.Root.Losses = 0, r.Losses                                              // not noted since
					if do = cell.Action(); column == "lost" && row != "none" && entry[0] != "damaged" { // damaged-put-back: as no loss
						do = worker.NoteLoss
					}
					require.Equal(t, do, worker.Decide(r, s, now), "%s", cell)
				}
			}
		}
	}
	require.Equal(t, len(worker.Cells()), cells)
	require.Equal(t, 35*10*12, asked)
}
