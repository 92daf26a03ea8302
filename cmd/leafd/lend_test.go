package main

import (
	"fmt"
	"net/http"
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
	"github.com/leafd/leafd/test/zookeepertest"
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

// from borrows slices as soon as the daemon lends, for half of whose longest lend nothing may be lent, and has
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

// Whatever becomes of daemons that lend, no ID can be made twice: after a kill, a stop, a release, and one by force.
func TestSlicesRepeatNothing(t *testing.T) {
	t.Parallel()
	const lend = 6 * time.Second
	c := onShared(t, "--longest-lend", lend.String())
	o := c.watch()
	args := []string{tune("ReportInterval", "500ms"), tune("CeilingLead", "3s"), "--lend", lend.String()}
	first, b := c.machine(args...), borrowed{t: t}
	l, beside := first.ready(), c.machine(args...).ready()
	_, a := b.asks(l, uuid.NewString())
	require.Equal(t, http.StatusServiceUnavailable, a.status, "nothing is lent at the start")
	b.from(l)
	b.from(beside)
	l.kill()
	l = first.ready()
	b.from(l)
	require.Equal(t, cli.ExitOK, l.stop())
	l = first.ready("--release-on-stop")
	b.from(l)
	require.Equal(t, cli.ExitOK, l.stop())
	require.Greater(t, o.must(o.path(0)).payload(t).Limit, b.slices[len(b.slices)-1].From, "the release is above each clock at which was lent")

	second := c.machine(args...)
	l = second.ready()
	require.Zero(t, l.info().ID)
	b.from(l)
	l.kill()
	require.Equal(t, cli.ExitOK, c.onMachine(newMachine(t), "worker", "release", "0", "--force", "--yes", "--clock-threshold", "10ms").Code)
	third, limit := c.machine(args...), o.must(o.path(0)).payload(t).Limit
	require.Eventually(t, func() bool { return third.now() > limit }, eventually, tick)
	l = third.ready()
	require.Zero(t, l.info().ID)
	b.from(l)
	b.requireDistinct(lend)

	require.Eventually(t, func() bool {
		b.asks(l, uuid.NewString())
		list := clitest.FromJSON[inspect.List](t, c.onMachine(newMachine(t), "worker", "list", "-o", "json").OK(t))
		return list.Workers[0].SlotsLent > 0 && l.info().SlotsLent > 0
	}, eventually, tick)
	held, _ := b.asks(l, uuid.NewString())
	require.JSONEq(t, `{"given_back":true}`, l.send(http.MethodDelete, fmt.Sprintf("/api/snowflake/lend/%s?used=%d", held.Slice, held.From), "", "").body)
	require.JSONEq(t, `{"given_back":false}`, l.send(http.MethodDelete, fmt.Sprintf("/api/snowflake/lend/%s?used=%d", held.Slice, held.From), "", "").body)
	for _, l := range []*child{l, beside} {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// A daemon that lends is cut off, and goes on: it lends up to its limit, which no slice outlasts. An operator releases its worker ID then, and
// another daemon has it, while the first still runs. That one's next life lends nothing, beside slices of its own that last.
func TestSlicesOfAHolderThatIsCutOff(t *testing.T) {
	t.Parallel()
	const lend = 6 * time.Second
	s := zookeepertest.Shared(t)
	c := onShared(t, "--longest-lend", lend.String())
	o := c.watch()
	proxy := zookeepertest.NewProxy(t, s.Addr())
	args := []string{tune("ReportInterval", "500ms"), tune("CeilingLead", "3s")}
	m, b := c.behind(proxy, append(args, "--lease", oneMinute)...), borrowed{t: t}
	l := m.ready("--lend", lend.String())
	b.from(l)
	proxy.Down(t)
	w := l.info()
	limit := o.must(o.path(w.ID)).payload(t).Limit
	m.passes(limit.Sub(m.now()) - 4*time.Second)
	for n := 0; ; time.Sleep(tick) {
		slice, a := b.asks(l, uuid.NewString())
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
		return c.onMachine(newMachine(t), "worker", "release", strconv.FormatInt(w.ID, 10), "--yes").Code == cli.ExitOK
	}, eventually, tick, "once its limit has passed")
	next := c.machine(append(args, "--lend", lend.String())...).ready()
	require.Equal(t, w.ID, next.info().ID)
	b.from(next)
	require.False(t, l.Ended())
	_, a := b.asks(l, uuid.NewString())
	require.Equal(t, "lease_over", a.code())

	proxy.Up(t)
	l.awaitStatus("/readyz", http.StatusOK)
	require.NotEqual(t, w.ID, l.info().ID)
	b.from(l)
	l.kill()
	l = m.ready() // with --lend left out, while those slices last
	list, err := ids(l.awaitStatus("/api/snowflake/get/a?n=3000", http.StatusOK).body)
	require.NoError(t, err)
	b.issued = append(b.issued, list...)
	_, a = b.asks(l, uuid.NewString())
	require.Equal(t, "mode_disabled", a.code())
	b.requireDistinct(lend)
}

// The longest lend belongs to the cluster, as its longest lease does.
func TestLendLongerThanTheClusters(t *testing.T) {
	t.Parallel()
	c := onShared(t, "--longest-lend", "10m")
	require.Equal(t, "10m", field(t, c.onMachine(newMachine(t), "cluster", "status").Stdout, "longest_lend"))
	c.onMachine(newMachine(t), "cluster", "init", "--longest-lend", "11m").Failed(t, cli.ExitFailure, "its longest lend is 10m, not 11m", "set once")
	few := unmade(t)
	for lend, says := range map[string]string{"1h1s": "want 0s to 1h", "-1s": "want 0s to 1h", "1us": "whole milliseconds"} {
		few.onMachine(newMachine(t), "cluster", "init", "--new", "--yes", "--longest-lend", lend).Failed(t, cli.ExitUsage, says)
	}
	few.onMachine(newMachine(t), "cluster", "init", "--new", "--yes", "--longest-lend", "1s", "--layout", "41+13+9").Failed(t, cli.ExitUsage, "fewer than 10 bits")
	leafd(t, "serve", "--lend", "1s", "--layout", "41+13+9").Failed(t, cli.ExitUsage, "fewer than 10 bits")
	l := c.machine("--lend", "10m1s").start()
	l.exits(cli.ExitHeld)
	require.True(t, l.hasLogged("--lend", "10m"), l.Log())
	m := c.machine()
	l = m.ready()
	require.Equal(t, 10*time.Minute, recordOf(t, m).LongestLend)
	a := l.send(http.MethodPost, "/api/snowflake/lend/a?slice="+uuid.NewString(), "", "")
	require.Equal(t, "mode_disabled", a.code(), "--lend is 0s")
	list, err := ids(l.awaitStatus("/api/snowflake/get/a?n=10000", http.StatusOK).body)
	require.NoError(t, err)
	for _, id := range list {
		parts, err := snowflake.DefaultLayout().Decode(id)
		require.NoError(t, err)
		require.Less(t, parts.Sequence, int64(2048))
	}
	require.Equal(t, cli.ExitOK, l.stop())
}
