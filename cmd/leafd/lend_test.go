package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	idserver "github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clitest"
)

// borrowed is all that daemons have lent, and the IDs that they issued beside it.
type borrowed struct {
	t      *testing.T
	slices []idserver.Lent
	issued []int64
}

// asks asks a daemon for a slice.
func (b *borrowed) asks(l *child, name string) (idserver.Lent, answer) {
	a := l.send(http.MethodPost, "/api/snowflake/lend/a?slice="+name, "", "")
	if a.status != http.StatusOK {
		return idserver.Lent{}, a
	}
	return clitest.FromJSON[idserver.Lent](b.t, a.body), a
}

// from borrows slices as soon as the daemon lends, after half of its longest lend, and has
// it issue as many IDs as it can meanwhile.
func (b *borrowed) from(l *child) {
	b.t.Helper()
	for n := 0; n < 8; time.Sleep(tick) {
		list, err := ids(l.awaitStatus("/api/snowflake/get/a?n=3000", http.StatusOK).body)
		require.NoError(b.t, err)
		b.issued = append(b.issued, list...)
		name := uuid.NewString()
		s, a := b.asks(l, name)
		if a.status != http.StatusOK {
			require.Equal(b.t, "overloaded", a.code(), a.body)
			wait, err := strconv.Atoi(a.header.Get("Retry-After"))
			require.NoError(b.t, err)
			require.Positive(b.t, wait)
			continue
		}
		n++
		b.slices = append(b.slices, s)
		again, _ := b.asks(l, name)
		require.GreaterOrEqual(b.t, again.Now, s.Now)
		again.Now = s.Now
		require.Equal(b.t, s, again)
	}
}

// requireDistinct requires that no ID can be made twice: the daemons' own have the lower half of the sequence, and slices
// of one slot don't overlap.
func (b *borrowed) requireDistinct(lend time.Duration) {
	b.t.Helper()
	requireDistinct(b.t, b.issued)
	for _, id := range b.issued {
		parts, err := snowflake.DefaultLayout().Decode(id)
		require.NoError(b.t, err)
		require.Less(b.t, parts.Sequence, int64(2048))
	}
	for i, s := range b.slices {
		require.GreaterOrEqual(b.t, s.First, int64(2048))
		require.Equal(b.t, s.First+15, s.Last)
		require.LessOrEqual(b.t, s.Until, s.From.Add(lend))
		for _, o := range b.slices[:i] {
			require.False(b.t, s.Worker == o.Worker && s.First <= o.Last && o.First <= s.Last && s.From < o.Until && o.From < s.Until, "%+v and %+v", o, s)
		}
	}
}

const lend = 6 * time.Second

// lending begins a story of daemons that lend, the first of them with args; the one beside it has lent.
func lending(t *testing.T, args ...string) (*story, *borrowed) {
	t.Helper()
	s, b := newStory(t, "--longest-lend", lend.String()), &borrowed{t: t}
	for _, name := range []string{"first", "beside", "heir"} {
		s.host(name, tune("ReportInterval", "500ms"), tune("CeilingLead", "3s"), "--lend", lend.String())
	}
	s.sets("first", args...)
	s.ready("first", "beside")
	b.from(s.hosts["beside"].child)
	return s, b
}

// Whatever becomes of daemons that lend, no ID can be made twice: after a kill, a stop, a release, and one by force.
func TestSlicesRepeatNothing(t *testing.T) {
	s, b := lending(t)
	first, heir := s.hosts["first"], s.hosts["heir"]
	was := first.info().ID
	b.from(first.child)
	s.kill("first")
	s.sets("first", "--release-on-stop")
	s.ready("first")
	_, a := b.asks(first.child, uuid.NewString())
	require.Equal(t, http.StatusServiceUnavailable, a.status, "nothing is lent at the start")
	b.from(first.child)
	s.stop("first")
	require.Greater(t, s.standing(was).Limit, b.slices[len(b.slices)-1].From, "the release is above each clock at which was lent")
	for range 2 {
		s.ready("heir")
		s.is("heir", was)
		b.from(heir.child)
		s.kill("heir")
		s.releasedByForce(was)
		require.NoError(t, os.RemoveAll(heir.dataDir()))
	}
	s.ready("heir")
	s.is("heir", was)
	b.from(heir.child)
	b.requireDistinct(lend)

	require.Eventually(t, func() bool {
		b.asks(heir.child, uuid.NewString())
		list := clitest.FromJSON[inspect.List](t, s.onMachine(newMachine(t), "worker", "list", "-o", "json").OK(t))
		return list.Workers[was].SlotsLent > 0 && heir.info().SlotsLent > 0
	}, eventually, tick)
	held, _ := b.asks(heir.child, uuid.NewString())
	for _, given := range []string{"true", "false"} {
		require.JSONEq(t, `{"given_back":`+given+`}`, heir.send(http.MethodDelete, fmt.Sprintf("/api/snowflake/lend/%s?used=%d", held.Slice, held.From), "", "").body)
	}
}

// A daemon that lends is cut off, and goes on: it lends up to its limit, which no slice outlasts. An operator releases its worker ID then, and
// another daemon has it, while the first still runs. That one's next life lends nothing, beside slices of its own that last.
func TestSlicesOfAHolderThatIsCutOff(t *testing.T) {
	s, b := lending(t, "--lease", oneMinute)
	l := s.hosts["first"]
	b.from(l.child)
	s.cut("first")
	was := l.info().ID
	limit := s.standing(was).Limit
	l.passes(limit.Sub(l.now()) - 4*time.Second)
	for n := 0; ; time.Sleep(tick) {
		slice, a := b.asks(l.child, uuid.NewString())
		if a.status == http.StatusServiceUnavailable && a.code() == "lease_over" {
			require.Positive(t, n, "it lends to the end")
			break
		}
		if a.status == http.StatusOK {
			n++
			require.LessOrEqual(t, slice.Until, limit)
			b.slices = append(b.slices, slice)
		}
	}
	require.Eventually(t, func() bool {
		return s.onMachine(newMachine(t), "worker", "release", strconv.FormatInt(was, 10), "--yes").Code == cli.ExitOK
	}, eventually, tick, "once its limit has passed")
	s.ready("heir")
	s.is("heir", was)
	b.from(s.hosts["heir"].child)
	_, a := b.asks(l.child, uuid.NewString())
	require.Equal(t, "lease_over", a.code())

	s.heal("first")
	s.ready("first")
	require.NotEqual(t, was, l.info().ID)
	b.from(l.child)
	s.kill("first")
	s.sets("first", "--lend", "0s") // while those slices last
	s.ready("first")
	b.issued = append(b.issued, s.ids("first")...)
	_, a = b.asks(l.child, uuid.NewString())
	require.Equal(t, "mode_disabled", a.code())
	b.requireDistinct(lend)
}

// The longest lend belongs to the cluster, as its longest lease does.
func TestLendLongerThanTheClusters(t *testing.T) {
	s := newStory(t, "--longest-lend", "10m")
	command := func(args ...string) clitest.Outcome {
		return s.onMachine(newMachine(t), append([]string{"cluster"}, args...)...)
	}
	require.Equal(t, "10m", field(t, command("status").Stdout, "longest_lend"))
	command("init", "--longest-lend", "11m").Failed(t, cli.ExitFailure, "its longest lend is 10m, not 11m", "set once")
	for lend, says := range map[string]string{"1h1s": "want 0s to 1h", "-1s": "want 0s to 1h", "1us": "whole milliseconds"} {
		command("init", "--longest-lend", lend).Failed(t, cli.ExitUsage, says)
	}
	command("init", "--longest-lend", "1s", "--layout", "41+13+9").Failed(t, cli.ExitUsage, "fewer than 10 bits")
	leafd(t, "serve", "--lend", "1s", "--layout", "41+13+9").Failed(t, cli.ExitUsage, "fewer than 10 bits")
	s.host("long", "--lend", "10m1s")
	s.start("long")
	s.exits("long", cli.ExitHeld, "--lend", "10m")
	a := s.host("a")
	s.ready("a")
	require.Equal(t, 10*time.Minute, recordOf(t, a.machine).LongestLend)
	refused := a.send(http.MethodPost, "/api/snowflake/lend/a?slice="+uuid.NewString(), "", "")
	require.Equal(t, "mode_disabled", refused.code(), "--lend is 0s")
	for _, id := range a.batch("/api/snowflake/get/a?n=10000") {
		parts, err := snowflake.DefaultLayout().Decode(id)
		require.NoError(t, err)
		require.Less(t, parts.Sequence, int64(2048))
	}
}
