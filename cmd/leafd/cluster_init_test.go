package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/zkreg"
)

// Only an operator makes a cluster: a daemon waits for it, says once what there can be,
// and ends with the same words. One that still waits when it is made joins it.
func TestServeWithoutACluster(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	const absent = "it has lost its data, or the ensemble is new"
	hasty := c.machine(append(frequent(), "--startup-timeout", "5s")...).start()
	waiting := c.machine(frequent()...).start()
	hasty.exits(cli.ExitFailure)
	lines := strings.Split(strings.TrimSpace(hasty.Log()), "\n")
	require.Contains(t, lines[len(lines)-1], absent)
	for _, l := range []*child{hasty, waiting} {
		l.awaitLog("waiting: no_cluster", absent)
		require.Equal(t, 1, l.Logged("waiting: no_cluster"), "one line")
		require.False(t, l.hasLogged("issuing snowflake IDs"))
	}
	require.Equal(t, "starting", waiting.mustGet("/readyz").code())
	require.Contains(t, waiting.mustGet("/readyz").body, "leafd is starting: no cluster", "it says what it waits for")
	require.Contains(t, waiting.mustGet("/readyz").body, absent)
	_, found, err := o.get(c.root)
	require.NoError(t, err)
	require.False(t, found, "nothing was made")
	c.onMachine(newMachine(t), "cluster", "status").Failed(t, cli.ExitFailure, "nothing is at "+c.root, absent)

	c.init()
	waiting.awaitStatus("/readyz", 200)
	require.Zero(t, waiting.info().ID)
	require.Equal(t, cli.ExitOK, waiting.stop())

	// One that is told to stop while it waits does so.
	stopped := unmade(t).machine(frequent()...).start()
	stopped.awaitLog("waiting: no_cluster")
	require.Equal(t, cli.ExitOK, stopped.stop())
}

// What cluster init and cluster status print, and that the first changes a cluster once.
func TestClusterInitAndStatus(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	m := newMachine(t)
	out := c.onMachine(m, "cluster", "init", "--new", "--yes").OK(t)
	require.Contains(t, out, "Made cluster ")
	require.Contains(t, out, fmt.Sprintf(" at %s: layout 41+10+12, epoch 1288834974657, worker IDs under %s/leaf_forever.", c.root, c.root))
	before := o.everything()
	again := c.onMachine(m, "cluster", "init").OK(t)
	require.Contains(t, again, "Already there: cluster ")
	require.Contains(t, again, "Nothing was changed.")
	again = c.onMachine(m, "cluster", "init", "-o", "json").OK(t)
	made := clitest.FromJSON[cli.InitJSON](t, again)
	require.Equal(t, zkreg.InitStands, made.Result)
	require.Contains(t, out, made.Cluster)
	for _, tc := range []struct{ args, says []string }{
		{[]string{"--layout", "41+5+5+12"}, []string{"41+10+12", "41+5+5+12"}},
		{[]string{"--epoch", "1577836800000"}, []string{"1288834974657", "1577836800000"}},
		{[]string{"--zk-forever-path", "/elsewhere"}, []string{c.root + "/leaf_forever", "/elsewhere"}},
	} {
		c.onMachine(m, append([]string{"cluster", "init"}, tc.args...)...).Failed(t, cli.ExitFailure, tc.says...)
	}
	c.onMachine(m, "cluster", "init", "--longest-lease", "5h59m").Failed(t, cli.ExitUsage, "longest-lease is 5h59m: want 6h to 8760h")
	c.onMachine(m, "cluster", "init", "--longest-lease", "720h").Failed(t, cli.ExitFailure, "its longest lease is 168h, not 720h", "set once")
	c.onMachine(m, "cluster", "init", "--longest-lease", "168h").OK(t)
	require.Equal(t, before, o.everything())
	long := unmade(t)
	require.EqualValues(t, 720*60*60*1000, clitest.FromJSON[cli.InitJSON](t, long.onMachine(m, "cluster", "init", "--new", "--yes", "--longest-lease", "720h", "-o", "json").OK(t)).LongestLeaseMS)
	require.Equal(t, "720h", field(t, long.onMachine(m, "cluster", "status").OK(t), "longest_lease"))
	begun := unmade(t) // an init that was cut short
	look := begun.watch()
	look.create(begun.root, rootText("41+10+12", look.forever, 0), 0)
	look.create(look.forever, "", 0)
	require.Contains(t, begun.onMachine(m, "cluster", "init").OK(t), "Completed cluster c1 at "+begun.root)
	require.Contains(t, look.must(begun.root).text, fmt.Sprintf(`"forever":%q,"parent_czxid":%d`, look.forever, look.must(look.forever).created))
	unknown := unmade(t)
	old := unknown.watch()
	old.create(unknown.root, `{"cluster":"c1","epoch":1288834974657,"layout":"41+10+12"}`, 0)
	unknown.onMachine(m, "cluster", "init").Failed(t, cli.ExitFailure, unknown.root, `forever: path "": want one like /leaf`, "never released", "take another --zk-root")
	started := unknown.machine().start()
	started.exits(cli.ExitFailure)
	started.awaitLog("want one like /leaf", "never released", "take another --zk-root")
	require.Empty(t, old.entries())
	l := c.machine().ready()
	text := c.onMachine(m, "cluster", "status").OK(t)
	for name, value := range map[string]string{
		"root": c.root, "cluster": made.Cluster, "layout": "41+10+12", "forever": c.root + "/leaf_forever",
		"parent": "recorded", "entries": "1", "live": "1", "losses": "0", "longest_lease": "168h", "longest_session": "6s",
	} {
		require.Equal(t, value, field(t, text, name), name)
	}
	require.NotContains(t, text, "lost_at")
	require.NotContains(t, text, "floor")
	got := clitest.FromJSON[cli.ClusterJSON](t, c.onMachine(m, "cluster", "status", "-o", "json").OK(t))
	require.Equal(t, cli.ClusterJSON{
		Root: c.root, Cluster: made.Cluster, Layout: "41+10+12", Epoch: 1288834974657, Forever: c.root + "/leaf_forever",
		ParentCzxid: o.must(o.forever).created, Parent: "recorded", LongestLeaseMS: 604800000, LongestSessMS: 6000, Entries: 1, Live: 1,
	}, got)
	require.Equal(t, cli.ExitOK, l.stop())
}

// One host forgets --zk-forever-path: it is refused, where it gave out the worker IDs of
// the others again, under a parent of its own.
func TestForeverPathForgotten(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	o.forever = c.root + "-java/forever"
	elsewhere := []string{"--zk-forever-path", o.forever}
	c.init(elsewhere...)
	first := c.machine(append(frequent(), elsewhere...)...).ready()
	before := o.entries()
	for name, args := range map[string][]string{"forgotten": nil, "mistyped": {"--zk-forever-path", o.forever + "s"}} {
		l := c.machine(append(frequent(), args...)...).start()
		l.exits(cli.ExitHeld, name)
		require.Contains(t, l.Log(), o.forever, name)
		require.Contains(t, l.Log(), append(args, "", c.root+"/leaf_forever")[1], name)
		require.NotContains(t, l.Log(), "issuing snowflake IDs", name)
	}
	require.Equal(t, before, o.entries())
	require.Equal(t, []string{first.addr}, o.live())
	require.Contains(t, c.onMachine(newMachine(t), "cluster", "status").OK(t), o.forever, "it shows where they are, without being told")
	require.Equal(t, cli.ExitOK, first.stop())
}
