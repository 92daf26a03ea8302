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
	Seed  uint64 // of a run that finds it
	Mix   string // what that run does; empty: Test finds it
	Test  string // package and name; empty: the random walk, test/walktest
	Edits []Edit
}

// Edit replaces Old, which File has exactly once, by New.
type Edit struct{ File, Old, New string }

// All returns the mutants. Some guards have none:
//
// The watch over an entry that still changes (worker.Watch), by which a start on
// a copy yields to a daemon that lives, saves that daemon its worker ID, and protects no ID:
// without it the daemon fails at its next report, root-checked, before the copy has waited for
// the ceiling, start-above-ceiling.
//
// An entry that an unknown life wrote (one-directory) is met only by copies with the home of
// the original and records with the life of its lock, such as block-level clones: of all
// others "home" and "restored record" come first.
//
// "end of a piece", "root's floor" and "floor of a take-over" take out guards that are doubled: one
// of each alone is not noticed (docs/evidence/PROOF.md).
//
// That settling ends where the root was written (written-as-decided) needs a new daemon that claims before
// those that know better report, which no seed meets for sure. TestExploreWithoutARule has it.
//
// The marks on disk (marks-before-use) matter after a restart, for what was used without ZooKeeper,
// until another daemon's next fetch has put the high mark above that: clients that ask all
// the time leave no moment to lose commits in. Tests of segment have it.
//
// The high mark alone keeps ranges apart in the runs of chaos, so that what else a fetch does in order matters only where
// ZooKeeper is away, or a database fails to commit: lock-then-high, conditional-update, committed-alone, moved-forward, guard-away.
// The models of spec have runs without each, and segment and sqlstore tests.
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
			Seed: 1, Mix: "kill -9, clock back, restart",
			Edits: []Edit{{"cache/codec.go", " || !bytes.Equal(part, frame(s.Sequence, s.Record)) {", " {"}},
		},
		{
			Name: "newer slot", Guard: "whole-slots: of two slots the one with the greater sequence number counts (cache/codec.go)",
			Seed: 1, Mix: "kill -9, clock back, restart",
			Edits: []Edit{{"cache/codec.go", "if intact++; s.Sequence >= newest.Sequence {", "if intact++; intact == 1 || s.Sequence < newest.Sequence {"}},
		},
		{
			Name: "damaged slot", Guard: "restored-record: with one slot alone a start begins a ceiling lead later (worker/start.go)",
			Seed: 1, Mix: "kill -9, clock back, restart",
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
			Seed: 1, Mix: "clean stop",
			Edits: []Edit{{"snowflake/generator.go", "n := min(want, end+1-first)", "n := want"}},
		},
		{
			Name: "home", Guard: "one-directory: a record that another directory wrote is set aside (worker/start.go)",
			Seed: 1, Mix: "cut off from ZooKeeper and peers, started elsewhere",
			Edits: []Edit{{"worker/start.go", "copied := r.Instance != \"\" &&", "copied := r.Instance == \"none\" &&"}},
		},
		{
			Name: "restored record", Guard: "restored-record: a record that was put back from a backup is set aside (worker/start.go)",
			Seed: 1, Mix: "older record put back, clock back",
			Edits: []Edit{{"worker/start.go", "	case r.Restored: // restored-record", "	case r.Restored && r.WorkerID < 0:"}},
		},
		{
			Name: "limit", Guard: "below-the-limit: the ceiling never reaches beyond the limit (worker/ceiling.go)",
			Seed: 1, Mix: "cut off from ZooKeeper beyond its limit, replaced",
			Edits: []Edit{
				{"worker/ceiling.go", "ceiling = min(ceiling, me.Limit)", "ceiling = max(ceiling, 0)"},
				{"worker/ceiling.go", "ceiling = min(ceiling, w.record.Limit)", "ceiling = max(ceiling, 0)"},
			},
		},
		{
			Name: "end of a piece", Guard: "ending-piece: a piece near its end, or beyond it, is neither prolonged nor resumed nor put back (worker/record.go)",
			Seed: 1, Mix: "cut off beyond its limit, replaced, ZooKeeper set back",
			Edits: []Edit{{"worker/record.go", "now.Add(margin) < r.AckedLimit\n", "now.Add(margin) < r.AckedLimit.Add(time.Hour)\n"}},
		},
		{
			Name: "floor of a take-over", Guard: "floor-at-the-limit: a daemon that takes a worker ID over gets a floor at or above what may have been issued (worker/record.go)",
			Seed: 1, Mix: "given back at a stop, taken by a clock that is set back",
			Edits: []Edit{
				{"worker/record.go", "floor = max(floor, e.Floor, e.Limit, e.Ceiling)", "floor = max(floor, e.Floor)"},
				{"worker/record.go", "	return from <= now, from\n}", "	return from > 0, from\n}"},
				{"worker/start.go", "root.LongestSession()+max(", "min(0, root.LongestSession())*max("},
			},
		},
		{
			Name: "file first", Guard: "ceiling-before-use: a ceiling counts once the file has it (worker/ceiling.go)",
			Seed: 1, Mix: "record can't be written, kill -9, clock back",
			Edits: []Edit{
				{"worker/ceiling.go", "		if err := w.cfg.Cache.Save(r); err != nil {\n			return err\n		}\n", "		saved := w.cfg.Cache.Save(r)\n"},
				{"worker/ceiling.go", "		return nil\n	}))\n}\n\n// ErrLeaseOver", "		return saved\n	}))\n}\n\n// ErrLeaseOver"},
			},
		},
		{
			Name: "fence", Guard: "fence-is-final: a daemon that lost its worker ID issues no more (worker/ceiling.go)",
			Seed: 4, Mix: "worker released by force while it runs",
			Edits: []Edit{{"worker/ceiling.go", "		return w.fence(err)\n", "		return nil\n"}},
		},
		{
			Name: "displaced", Guard: "confirmed-record: a life after one that was displaced asks ZooKeeper which worker ID it has (worker/start.go)",
			Seed: 4, Mix: "worker released by force while it runs",
			Edits: []Edit{{"worker/start.go", "	case w.cfg.Displaced != nil: // confirmed-record", "	case w.cfg.Displaced != nil && r.WorkerID < 0:"}},
		},
		{
			Name: "lock", Guard: "the lock of the data directory (cache/lock.go)",
			Seed: 1, Mix: "started twice",
			Edits: []Edit{{"cache/lock.go", "	if !got {", "	if !got && lock == nil {"}},
		},
		{
			Name: "settle", Guard: "settles-first: a new worker ID settles first (worker/start.go)",
			Seed: 1, Mix: "ZooKeeper set back, a new daemon joins",
			Edits: []Edit{{"worker/start.go", "root.LongestSession()+max(", "min(0, root.LongestSession())*max("}},
		},
		{
			Name: "root's floor", Guard: "root-floor: no worker ID is given out, and no piece begins, below the root's floor (zkreg/claim.go)",
			Seed: 1, Mix: "ZooKeeper emptied, a new daemon joins",
			Edits: []Edit{
				{"zkreg/claim.go", "if min(c.zkNow, now) < s.Root.Floor {", "if min(c.zkNow, now) < 0 {"},
				{"worker/record.go", "floor := root.Floor\n", "floor := min(0, root.Floor)\n"},
			},
		},
		{
			Name: "floor raised", Guard: "loss-raises-floor: a loss raises the root's floor beyond every piece that can be lost, by the longest lease (zkreg/root.go)",
			Edits: []Edit{{"zkreg/root.go", "now.Add(d.LongestLease()+margin)", "now.Add(margin)"}},
		},
		{
			Name: "loss noted", Guard: "loss-noted-first: a daemon that finds a loss notes it in the root (worker/decide.go)",
			Edits: []Edit{{"worker/decide.go", "&& s.Root.Losses <= r.Losses &&", "&& s.Root.Losses < 0 &&"}},
		},
		{
			Name: "succession", Guard: "loss-before-copy: succession is the order of floors, and not of limits (worker/decide.go)",
			Seed: 1, Mix: "given back at a stop, taken, ZooKeeper restored and recovered, started again",
			Edits: []Edit{{"worker/decide.go", "return cmp.Or(cmp.Compare(e.Floor, r.Floor), cmp.Compare(e.Limit, r.Limit)) < 0", "return cmp.Compare(e.Limit, r.Limit) < 0"}},
		},
		{
			Name: "released resumes", Guard: "released-never-resumes: a record that is released, in the file at least, never resumes (worker/decide.go)",
			Edits: []Edit{{"worker/decide.go", "	rowReleased:     {Forget, Release,", "	rowReleased:     {Forget, Resume,"}},
		},
		{
			Name: "life number", Guard: "loss-before-copy: an entry of a life before is lost data, and not a copy's, also where the limit is the same (worker/decide.go)",
			Edits: []Edit{{"worker/decide.go", ", cmp.Compare(e.Life, r.Acked.Number)) < 0", ") < 0"}},
		},
		{
			Name: "put-back settles", Guard: "settles-first: a start that puts its entry back, or meets a loss, settles before it issues (worker/holder.go)",
			Edits: []Edit{{"worker/holder.go", "if !settled && (do == PutBack ||", "if !settled && s.Root == nil && (do == PutBack ||"}},
		},
		{
			Name: "judged clock", Guard: "judged-clock: limits and ceilings come from the clock that the guards judged (worker/start.go)",
			Edits: []Edit{
				{"worker/start.go", "	if step.By > w.cfg.MaxForwardStep {", "	if step.By > w.cfg.MaxForwardStep && w.cfg.Registry == nil {"},
				{"worker/start.go", "return min(now.Wall(), w.anchor.Wall().Add(now.Mono-w.anchor.Mono+step.Suspended)), nil", "return now.Wall(), nil"},
			},
		},
		{
			Name: "high mark", Guard: "high-mark-decides: the high mark is written where it is as it was read (zkreg/guard.go)",
			Seed: 1, Mix: "max_id set back",
			Edits: []Edit{{"zkreg/guard.go", "setData(p, data, int32(m.Version))", "setData(p, data, -1)"}},
		},
		{
			Name: "high mark compared", Guard: "high-mark-decides: a range begins at or above the high mark (segment/fetch.go)",
			Seed: 1, Mix: "max_id set back",
			Edits: []Edit{{"segment/fetch.go", "max(f.Tag.floor, f.high.High)", "max(f.Tag.floor, min(0, f.high.High))"}},
		},
		{
			Name: "raised", Guard: "raised-after-a-loss: what was used without ZooKeeper is raised there once it is back (segment/guarded.go)",
			Seed: 1, Mix: "all cut off from ZooKeeper, back, and MariaDB loses its last commits",
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
