package checker

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms = int64(time.Millisecond)
	s  = int64(time.Second)
)

// noon is when the histories of the tests begin, nanoseconds since 1970.
const noon = int64(1795262400) * s

// at is the snowflake ID of the worker that many milliseconds after noon.
func at(millis, worker, sequence int64) int64 {
	return (noon/ms+millis-1288834974657)<<15 | worker<<12 | sequence
}

// life is a process that has started.
func life(process int, daemon string) *history.Record {
	return &history.Record{Kind: history.KindLife, Process: process, Daemon: daemon, Host: process}
}

// displaced is a process that was seen displaced.
func displaced(process int, millis int64) *history.Record {
	return &history.Record{Kind: history.KindDisplaced, Process: process, At: millis * ms}
}

// answer is IDs of process, on a connection of its own, asked for a millisecond
// before they came.
func answer(process int, stream string, millis int64, ids ...int64) *history.Record {
	return &history.Record{
		Kind: history.KindRequest, Process: process, Conn: int(millis)*100 + process, Stream: stream, Status: 200,
		At: millis*ms - ms, Took: ms, Wall: noon + millis*ms - ms, Asked: len(ids), IDs: history.Runs(ids),
	}
}

// on moves an answer to a connection.
func on(conn int, r *history.Record) *history.Record { r.Conn = conn; return r }

const sf = history.Snowflake

// Each rule is broken, and a history that comes as near to that as it may is not
// blamed.
func TestRules(t *testing.T) {
	clocked := func(from, to time.Duration, when int64) *history.Record {
		return &history.Record{Kind: history.KindClock, Host: 1, At: when * ms, From: int64(from), To: int64(to)}
	}
	cases := []struct {
		name    string
		records []*history.Record
		want    Rule // empty: nothing is wrong
	}{
		{"fine", []*history.Record{
			life(1, "a"), life(2, "b"),
			answer(1, sf, 10, at(10, 0, 5), at(10, 0, 6)), answer(2, sf, 10, at(10, 1, 5)), answer(1, sf, 11, at(11, 0, 0)),
			answer(1, "tag", 12, 1, 2, 3), answer(2, "tag", 13, 100, 101), answer(1, "other", 14, 1, 2),
		}, ""},
		{"snowflake twice", []*history.Record{
			life(1, "a"), answer(1, sf, 10, at(10, 0, 5)), on(9, answer(1, sf, 10, at(10, 0, 5))),
		}, Unique},
		{"segment twice, by two daemons", []*history.Record{
			life(1, "a"), life(2, "b"), answer(1, "tag", 10, 1, 2, 3), answer(2, "tag", 11, 3, 4),
		}, Unique},
		{"twice in one answer", []*history.Record{life(1, "a"), answer(1, "tag", 10, 5, 5)}, Growing},
		{"too few", []*history.Record{life(1, "a"), func() *history.Record {
			r := answer(1, "tag", 10, 5)
			r.Asked = 2
			return r
		}()}, Count},
		{"none at all", []*history.Record{life(1, "a"), func() *history.Record {
			r := answer(1, "tag", 10)
			r.Asked = 1
			return r
		}()}, Count},
		{"falling on a connection", []*history.Record{
			life(1, "a"), on(7, answer(1, "tag", 10, 5)), on(7, answer(1, "tag", 10, 4)),
		}, Growing},
		{"falling after an answer to another", []*history.Record{
			life(1, "a"), answer(1, "tag", 10, 5), answer(1, "tag", 20, 4),
		}, Growing},
		{"lower, but asked for before the other's answer", []*history.Record{
			life(1, "a"), answer(1, "tag", 10, 5), on(8, answer(1, "tag", 11, 4)),
		}, ""},
		{"lower, of another process", []*history.Record{
			life(1, "a"), life(2, "b"), answer(1, "tag", 10, 5), answer(2, "tag", 20, 4),
		}, ""},
		{"another worker than before", []*history.Record{
			life(1, "a"), answer(1, sf, 10, at(10, 0, 0)), answer(1, sf, 20, at(20, 1, 0)),
		}, Owned},
		{"another worker than it says", []*history.Record{
			life(1, "a"), {Kind: history.KindWorker, Process: 1, Worker: 3}, answer(1, sf, 10, at(10, 0, 0)),
		}, Owned},
		{"it says another worker than before", []*history.Record{
			life(1, "a"), answer(1, sf, 10, at(10, 0, 0)), {Kind: history.KindWorker, Process: 1, Worker: 3},
		}, Owned},
		{"another worker once displaced", []*history.Record{
			life(1, "a"), on(7, answer(1, sf, 10, at(10, 1, 0))), displaced(1, 21), on(8, answer(1, sf, 21, at(15, 1, 3))), on(7, answer(1, sf, 30, at(15, 0, 0))),
			{Kind: history.KindWorker, Process: 1, Worker: 0},
		}, ""},
		{"two workers once displaced", []*history.Record{
			life(1, "a"), answer(1, sf, 10, at(10, 1, 0)), displaced(1, 20), answer(1, sf, 30, at(30, 0, 0)), answer(1, sf, 31, at(31, 1, 0)),
		}, Owned},
		{"the same worker once displaced, another's in between", []*history.Record{
			life(1, "a"), life(2, "b"), answer(1, sf, 10, at(10, 0, 0)), displaced(1, 12), answer(2, sf, 20, at(20, 0, 0)), answer(1, sf, 30, at(30, 0, 0)),
		}, ""},
		{"the same worker once displaced, another's still", []*history.Record{
			life(1, "a"), life(2, "b"), answer(1, sf, 10, at(10, 0, 0)), displaced(1, 12), answer(2, sf, 20, at(20, 0, 0)), answer(1, sf, 30, at(30, 0, 0)), answer(2, sf, 40, at(40, 0, 0)),
		}, Alone},
		{"segments of a process that was displaced", []*history.Record{
			life(1, "a"), answer(1, "tag", 10, 5), displaced(1, 12), answer(1, "tag", 20, 4),
		}, Growing},
		{"over the end of a sequence", []*history.Record{
			life(1, "a"), answer(1, sf, 10, at(10, 0, 4095), at(10, 1, 0)),
		}, Owned},
		{"two of one worker at once", []*history.Record{
			life(1, "a"), life(2, "b"), answer(1, sf, 10, at(10, 0, 0)), answer(2, sf, 11, at(11, 0, 0)), answer(1, sf, 12, at(12, 0, 0)),
		}, Alone},
		{"two of one worker, one after the other", []*history.Record{
			life(1, "a"), life(2, "b"), answer(1, sf, 10, at(10, 0, 0)), answer(1, sf, 11, at(11, 0, 0)), answer(2, sf, 12, at(12, 0, 0)),
		}, ""},
		{"the same millisecond", []*history.Record{
			life(1, "a"), life(2, "b"), answer(1, sf, 10, at(10, 0, 0)), answer(2, sf, 11, at(10, 0, 9)),
		}, Alone},
		{"of the future", []*history.Record{life(1, "a"), answer(1, sf, 10, at(60, 0, 0))}, Timed},
		{"of the past", []*history.Record{life(1, "a"), answer(1, sf, 1000, at(900, 0, 0))}, Timed},
		{"of the future, the clock is ahead", []*history.Record{
			life(1, "a"), clocked(0, time.Second, 5), answer(1, sf, 100, at(1100, 0, 0)),
		}, ""},
		{"of the old time after a step", []*history.Record{
			life(1, "a"), clocked(0, time.Second, 5), answer(1, sf, 100, at(100, 0, 0)),
		}, Timed},
		{"of either time while it steps", []*history.Record{
			life(1, "a"), clocked(0, -time.Second, 100), answer(1, sf, 101, at(-899, 0, 0)), on(5, answer(1, sf, 101, at(101, 0, 0))),
		}, ""},
		{"IDs in a refusal", []*history.Record{life(1, "a"), func() *history.Record {
			r := answer(1, "tag", 10, 5)
			r.Status, r.Code = 503, "overloaded"
			return r
		}()}, Refused},
		{"a refusal", []*history.Record{life(1, "a"), {Kind: history.KindRequest, Process: 1, Stream: "tag", Asked: 3, Status: 503, Code: "overloaded"}}, ""},
		{"bad form", []*history.Record{life(1, "a"), {Kind: history.KindRequest, Process: 1, Stream: "tag", Bad: "no code"}}, WellMade},
		{"an answer of no process", []*history.Record{answer(1, "tag", 10, 5)}, WellMade},
		// A client that got an answer in part counts nothing of it: another may have
		// the same IDs only if leafd gave them twice, which can't be known.
		{"in part", []*history.Record{
			life(1, "a"), {Kind: history.KindRequest, Process: 1, Stream: "tag", Asked: 2, Code: "closed"}, answer(1, "tag", 10, 5, 6),
		}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history")
			w, err := history.Create(path)
			require.NoError(t, err)
			checker := New()
			var got *Violation
			for _, r := range c.records {
				require.NoError(t, w.Write(r))
				if got == nil {
					got = checker.Add(r)
				}
			}
			require.NoError(t, w.Close())
			if got == nil {
				got = checker.Sweep(s)
			}
			if c.want == "" {
				require.Nil(t, got)
				return
			}
			require.NotNil(t, got)
			require.Equal(t, c.want, got.Rule, got.Error())
			text, err := got.Explain(path)
			require.NoError(t, err)
			require.Contains(t, text, string(c.want))
			if c.want == Unique {
				require.Regexp(t, `(?s)every answer with these IDs:\n.*200.*200`, text, "both sightings")
			}
		})
	}
}

func TestAvailability(t *testing.T) {
	c := New()
	refused := func(process int, millis int64, code string, status int) *history.Record {
		return &history.Record{Kind: history.KindRequest, Process: process, Stream: "tag", Asked: 1, At: millis * ms, Status: status, Code: code}
	}
	for _, r := range []*history.Record{
		life(1, "leafd1"), life(2, "leafd2"), life(3, Extra),
		answer(1, "tag", 10, 1), answer(2, "tag", 20, 2),
		{Kind: history.KindBegin, Fault: 1, At: 100 * ms, Text: "kill", Targets: []string{"leafd1"}},
		answer(1, "tag", 150, 3), refused(1, 200, "", 0), refused(1, 300, "starting", 503), answer(3, "tag", 310, 4), answer(2, "tag", 320, 5),
		{Kind: history.KindBegin, Fault: 2, At: 400 * ms, Text: "cut"},
		answer(2, "tag", 450, 6),
		{Kind: history.KindEnded, Fault: 1, At: 500 * ms},
		{Kind: history.KindEnded, Fault: 2, At: 500 * ms},
		answer(1, "tag", 600, 7),
	} {
		require.Nil(t, c.Add(r))
	}
	var out bytes.Buffer
	require.NoError(t, c.Availability().Print(&out))
	var rows []string
	for line := range bytes.Lines(out.Bytes()) {
		rows = append(rows, string(bytes.Join(bytes.Fields(line), []byte(" "))))
	}
	require.Equal(t, []string{
		"| fault | daemons | mode | requests | served | refused, by code | broken off | longest gap |",
		"| --- | --- | --- | --- | --- | --- | --- | --- |",
		"| no fault | all | segment | 3 | 100.000 % | none | 0 | 100ms |",
		"| kill | hit | segment | 3 | 33.333 % | starting 1 | 1 | 250ms |",
		"| kill | all others | segment | 1 | 100.000 % | none | 0 | 220ms |",
		"| several at once | all | segment | 1 | 100.000 % | none | 0 | 50ms |",
	}, rows)
}
