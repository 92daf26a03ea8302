// Package mutants has leafd with one guard taken out each. A check that finds
// nothing wrong with leafd has to find each of these wrong.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is leafd with one guard taken out.
type Mutant struct {
	Name  string
	Guard string // what is taken out, and where it stands
	Test  string // what finds it: the package and the test's name; empty: a run of chaos, of Seed and Mix
	Seed  uint64
	Mix   string
	Edits []Edit
}

// Edit replaces Old, which File has exactly once, by New.
type Edit struct{ File, Old, New string }

// All returns the mutants. "end of a piece", "root's floor" and "floor of a take-over" take out guards that are
// doubled: one of each alone is not noticed.
func All() []Mutant {
	return []Mutant{
		{
			Name: "ceiling", Guard: "start-above-ceiling: a start waits for the recorded ceiling, and issues above it (worker/start.go)",
			Seed: 1, Mix: "kill -9, clock back, restart",
			Edits: []Edit{
				{"worker/start.go", "left := r.Ceiling.Sub(w.cfg.Clock.Read().Wall())", "left := r.Timestamp.Sub(w.cfg.Clock.Read().Wall())"},
				{"worker/start.go", "w.floor = max(r.Ceiling, r.Timestamp, r.Floor)", "w.floor = max(r.Timestamp, r.Floor)"},
			},
		},
		{
			Name: "slot checksum", Guard: "whole-slots: a slot counts only as a whole, under its checksum (cache/codec.go)",
			Test:  "./cache TestTornSave|TestDamagedSlots",
			Edits: []Edit{{"cache/codec.go", " || !bytes.Equal(part, frame(s.Sequence, s.Record)) {", " {"}},
		},
		{
			Name: "newer slot", Guard: "whole-slots: of two slots the one with the greater sequence number counts (cache/codec.go)",
			Test:  "./cache TestTornSave|TestDamagedSlots",
			Edits: []Edit{{"cache/codec.go", "if intact++; s.Sequence >= newest.Sequence {", "if intact++; intact == 1 || s.Sequence < newest.Sequence {"}},
		},
		{
			Name: "damaged slot", Guard: "restored-record: with one slot alone a start begins a ceiling lead later (worker/start.go)",
			Test:  "./worker TestRecordThatMayNotBeTheNewest",
			Edits: []Edit{{"worker/start.go", "	if r.MaybeStale { // restored-record", "	if r.MaybeStale && r.Ceiling < 0 {"}},
		},
		{
			Name: "floor", Guard: "floor-to-ceiling: a generator begins above the ceiling of the life before (cmd/leafd/internal/daemon/life.go)",
			Seed: 1, Mix: "clock back at the end of a start",
			Edits: []Edit{{"cmd/leafd/internal/daemon/life.go", "Floor: l.worker.Floor(), Ahead:", "Floor: 0, Ahead:"}},
		},
		{
			Name: "clock", Guard: "time-only-grows: a clock behind the last ID is refused (snowflake/generator.go)",
			Seed: 1, Mix: "clock back",
			Edits: []Edit{
				{"snowflake/generator.go", "		if now+g.ahead < last {", "		if now+g.ahead < last && state == stoppedState {"},
				{"snowflake/generator.go", "at := max(now, last)", "at := now"},
			},
		},
		{
			Name: "sequence", Guard: "time-only-grows: a batch ends with its millisecond's sequence (snowflake/generator.go)",
			Test:  "./snowflake TestUniqueWhileTheClockSteps",
			Edits: []Edit{{"snowflake/generator.go", "n := min(want, end+1-first)", "n := want"}},
		},
		{
			Name: "home", Guard: "one-directory: a record that another directory wrote is set aside (worker/start.go)",
			Test:  "./worker TestUnusableRecordIsSetAside",
			Edits: []Edit{{"worker/start.go", "copied := r.Instance != \"\" &&", "copied := r.Instance == \"none\" &&"}},
		},
		{
			Name: "restored record", Guard: "restored-record: a record that was put back from a backup is set aside (worker/start.go)",
			Test:  "./worker TestUnusableRecordIsSetAside",
			Edits: []Edit{{"worker/start.go", "	case r.Restored: // restored-record", "	case r.Restored && r.WorkerID < 0:"}},
		},
		{
			Name: "limit", Guard: "below-the-limit: the ceiling never reaches beyond the limit (worker/ceiling.go)",
			Test: "./worker TestIssuingEndsAtTheLimit",
			Edits: []Edit{
				{"worker/ceiling.go", "ceiling = min(ceiling, me.Limit)", "ceiling = max(ceiling, 0)"},
				{"worker/ceiling.go", "ceiling = min(ceiling, w.record.Limit)", "ceiling = max(ceiling, 0)"},
			},
		},
		{
			Name: "end of a piece", Guard: "ending-piece: a piece near its end, or beyond it, is neither prolonged nor resumed nor put back (worker/record.go)",
			Test:  "./worker TestPieceThatReaches",
			Edits: []Edit{{"worker/record.go", "now.Add(margin) < r.AckedLimit\n", "now.Add(margin) < r.AckedLimit.Add(time.Hour)\n"}},
		},
		{
			Name: "floor of a take-over", Guard: "floor-at-the-limit: a daemon that takes a worker ID over gets a floor at or above what may have been issued (worker/record.go)",
			Test: "./worker TestTakenOverWorkerIDBringsItsFloor",
			Edits: []Edit{
				{"worker/record.go", "floor = max(floor, e.Floor, e.Limit, e.Ceiling)", "floor = max(floor, e.Floor)"},
				{"worker/record.go", "	return from <= now, from\n}", "	return from > 0, from\n}"},
				{"worker/start.go", "root.LongestSession()+max(", "min(0, root.LongestSession())*max("},
			},
		},
		{
			Name: "file first", Guard: "ceiling-before-use: a ceiling counts once the file has it (worker/ceiling.go)",
			Test: "./worker TestCeilingIsPublishedOnlyOnceRecorded",
			Edits: []Edit{
				{"worker/ceiling.go", "		if err := w.cfg.Cache.Save(r); err != nil {\n			return err\n		}\n", "		saved := w.cfg.Cache.Save(r)\n"},
				{"worker/ceiling.go", "		return nil\n	}))\n}\n\n// ErrLeaseOver", "		return saved\n	}))\n}\n\n// ErrLeaseOver"},
			},
		},
		{
			Name: "fence", Guard: "fence-is-final: a daemon that lost its worker ID issues no more (worker/ceiling.go)",
			Test:  "./worker TestFoundAfterAStartWithoutTheRegistry",
			Edits: []Edit{{"worker/ceiling.go", "		return w.fence(err)\n", "		return nil\n"}},
		},
		{
			Name: "displaced", Guard: "confirmed-record: a life after one that was displaced asks ZooKeeper which worker ID it has (worker/start.go)",
			Test:  "./worker TestStartWithoutTheRegistryOrTheRecord",
			Edits: []Edit{{"worker/start.go", "	case w.cfg.Displaced != nil: // confirmed-record", "	case w.cfg.Displaced != nil && r.WorkerID < 0:"}},
		},
		{
			Name: "lock", Guard: "the lock of the data directory (cache/lock.go)",
			Seed: 1, Mix: "started twice",
			Edits: []Edit{{"cache/lock.go", "	if !got {", "	if !got && lock == nil {"}},
		},
		{
			Name: "settle", Guard: "settles-first: a new worker ID settles first (worker/start.go)",
			Test:  "./worker TestClaimThatIsDisturbedWhileItSettles",
			Edits: []Edit{{"worker/start.go", "root.LongestSession()+max(", "min(0, root.LongestSession())*max("}},
		},
		{
			Name: "root's floor", Guard: "root-floor: no worker ID is given out, and no piece begins, below the root's floor (zkreg/claim.go)",
			Test: "./zkreg TestRootsFloor",
			Edits: []Edit{
				{"zkreg/claim.go", "if min(c.zkNow, now) < s.Root.Floor {", "if min(c.zkNow, now) < 0 {"},
				{"worker/record.go", "floor := root.Floor\n", "floor := min(0, root.Floor)\n"},
			},
		},
		{
			Name: "floor raised", Guard: "loss-raises-floor: a loss raises the root's floor beyond every piece that can be lost, by the longest lease (zkreg/root.go)",
			Test:  "./zkreg TestLossReckonsWithTheGreatestThreshold",
			Edits: []Edit{{"zkreg/root.go", "now.Add(d.LongestLease()+margin)", "now.Add(margin)"}},
		},
		{
			Name: "loss noted", Guard: "loss-noted-first: a daemon that finds a loss notes it in the root (worker/decide.go)",
			Test:  "./worker TestDecideIsTheProofs",
			Edits: []Edit{{"worker/decide.go", "&& s.Root.Losses <= r.Losses &&", "&& s.Root.Losses < 0 &&"}},
		},
		{
			Name: "succession", Guard: "loss-before-copy: succession is the order of floors, and not of limits (worker/decide.go)",
			Test:  "./worker TestDecideIsTheProofs",
			Edits: []Edit{{"worker/decide.go", "return cmp.Or(cmp.Compare(e.Floor, r.Floor), cmp.Compare(e.Limit, r.Limit)) < 0", "return cmp.Compare(e.Limit, r.Limit) < 0"}},
		},
		{
			Name: "released resumes", Guard: "released-never-resumes: a record that is released, in the file at least, never resumes (worker/decide.go)",
			Test:  "./worker TestDecideIsTheProofs",
			Edits: []Edit{{"worker/decide.go", "	rowReleased:     {Forget, Release,", "	rowReleased:     {Forget, Resume,"}},
		},
		{
			Name: "life number", Guard: "loss-before-copy: an entry of a life before is lost data, and not a copy's, also where the limit is the same (worker/decide.go)",
			Test:  "./worker TestDecideIsTheProofs",
			Edits: []Edit{{"worker/decide.go", ", cmp.Compare(e.Life, r.Acked.Number)) < 0", ") < 0"}},
		},
		{
			Name: "put-back settles", Guard: "settles-first: a start that puts its entry back, or meets a loss, settles before it issues (worker/reconcile.go)",
			Test:  "./worker TestClockJumpsWhileAStartSettles",
			Edits: []Edit{{"worker/reconcile.go", "if !settled && (do == PutBack ||", "if !settled && s.Root == nil && (do == PutBack ||"}},
		},
		{
			Name: "judged clock", Guard: "judged-clock: limits and ceilings come from the clock that the guards judged (worker/start.go)",
			Test: "./worker TestLimitIsByTheClockThatWasJudged",
			Edits: []Edit{
				{"worker/start.go", "	if step.By > w.cfg.MaxForwardStep {", "	if step.By > w.cfg.MaxForwardStep && w.cfg.Registry == nil {"},
				{"worker/start.go", "return min(now.Wall(), w.anchor.Wall().Add(now.Mono-w.anchor.Mono+step.Suspended)), nil", "return now.Wall(), nil"},
			},
		},
		{
			Name: "high mark", Guard: "high-mark-decides: the high mark is written where it is as it was read (zkreg/guard.go)",
			Test:  "./zkreg TestGuard",
			Edits: []Edit{{"zkreg/guard.go", "setData(p, data, int32(m.Version))", "setData(p, data, -1)"}},
		},
		{
			Name: "high mark compared", Guard: "high-mark-decides: a range begins at or above the high mark (segment/fetch.go)",
			Seed: 1, Mix: "max_id set back",
			Edits: []Edit{{"segment/fetch.go", "max(f.Tag.floor, f.high.High)", "max(f.Tag.floor, min(0, f.high.High))"}},
		},
		{
			Name: "raised", Guard: "raised-after-a-loss: what was used without ZooKeeper is raised there once it is back (segment/guarded.go)",
			Test:  "./segment TestRaiseAfterALoss",
			Edits: []Edit{{"segment/guarded.go", "if h.High < m.High {", "if h.High < min(0, m.High) {"}},
		},
		{
			Name: "lower half", Guard: "lower-half: where numbers are lent a daemon issues from the lower half alone (snowflake/generator.go)",
			Test:  "./snowflake TestUsedUpMillisecondWaitsForTheNext",
			Edits: []Edit{{"snowflake/generator.go", "	if cfg.Half { // lower-half", "	if cfg.Half && cfg.Worker < 0 {"}},
		},
		{
			Name: "slots", Guard: "slots-apart: a slice begins at or above the end of its slot's last (server/ids/lend/lend.go)",
			Test:  "./server/ids/lend TestSlotsApart",
			Edits: []Edit{{"server/ids/lend/lend.go", "case s.end <= now: // slots-apart", "case s.end <= now || s.name == \"\" && s.From > 0:"}},
		},
		{
			Name: "lend at the start", Guard: "slots-apart: a life lends a longest lend after its start (worker/lend.go)",
			Test:  "./worker TestLendingIsIssuing",
			Edits: []Edit{{"worker/lend.go", "return w.floor.Add(longest)", "return w.floor"}},
		},
		{
			Name: "stop below a slice", Guard: "lends-as-issued: a stop's ceiling lies above each clock at which was lent (worker/ceiling.go)",
			Test:  "./worker TestLendingIsIssuing",
			Edits: []Edit{{"worker/ceiling.go", "max(last+1, lentAt+1, w.floor)", "max(last+1, min(0, lentAt), w.floor)"}},
		},
		{
			Name: "lend above the ceiling", Guard: "lends-as-issued: a slice is lent at a clock below the ceiling (worker/lend.go)",
			Test:  "./worker TestLendingIsIssuing",
			Edits: []Edit{{"worker/lend.go", "	case now >= w.Ceiling():", "	case now < 0:"}},
		},
		{
			Name: "end of a slice", Guard: "lends-as-issued: a slice ends at the limit that the file has (worker/lend.go)",
			Test:  "./worker TestLendingIsIssuing",
			Edits: []Edit{{"worker/lend.go", "return now, w.filedLimit, nil", "return now, w.record.AckedLimit, nil"}},
		},
		{
			Name: "longest lend", Guard: "longest-lend: a daemon that would lend for longer than its cluster allows doesn't start (zkreg/layout.go)",
			Test:  "./cmd/leafd TestLendLongerThanTheClusters",
			Edits: []Edit{{"zkreg/layout.go", "want(c.Lend <= root.LongestLend(),", "want(c.Lend <= worker.MostLend,"}},
		},
	}
}

// Overlay writes the files of m, as they are in the checkout at root but for the
// edits, into dir, and returns the path of what go build takes with -overlay.
func (m Mutant) Overlay(root, dir string) (string, error) {
	texts := map[string]string{}
	for _, e := range m.Edits {
		text, ok := texts[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return "", fmt.Errorf("mutants: %w", err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return "", fmt.Errorf("mutants: %q of mutant %q is %d times in %s: adapt it to what the guard looks like now", e.Old, m.Name, n, e.File)
		}
		texts[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	replace := map[string]string{}
	for file, text := range texts {
		from, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return "", fmt.Errorf("mutants: %w", err)
		}
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("mutants: %w", err)
		}
		replace[from] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return "", fmt.Errorf("mutants: %w", err)
	}
	return path, nil
}
