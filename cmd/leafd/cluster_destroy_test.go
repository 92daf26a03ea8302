package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

// built runs a command of the built leafd on the cluster.
func (c *cluster) built(args ...string) clitest.Outcome {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(proctest.Leafd(c.t), slices.Concat(args, []string{"--zk", strings.Join(c.servers, ","), "--zk-root", c.root})...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &stdout, &stderr, c.t.TempDir()
	_ = cmd.Run() // its exit code says it
	return clitest.Outcome{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// notGood is what `cluster status` says of a cluster that isn't good.
func (c *cluster) notGood() string {
	c.t.Helper()
	o := c.built("cluster", "status")
	require.Equal(c.t, cli.ExitFailure, o.Code, o.Stdout+o.Stderr)
	return o.Stdout
}

// planned requires that a command did nothing but say what it would do, and returns that.
func planned(t *testing.T, o clitest.Outcome) string {
	t.Helper()
	require.Equal(t, cli.ExitUsage, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "nothing was done")
	require.Contains(t, o.Stderr, "--yes")
	return o.Stdout
}

// knows waits until the record of a machine's daemon has so many peers.
func (m *machine) knows(peers int) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		record, err := cache.Peek(m.dataDir())
		return err == nil && len(record.Peers) == peers
	}, eventually, tick, "%d peers of %s", peers, m.addr)
}

// ZooKeeper loses its data, and the daemons are cut off meanwhile. No command recommends a new
// cluster, none is made where a daemon is known to belong to one, and what gives worker IDs out
// again says first which daemons are back, and which one is missing.
func TestNothingDestroysACluster(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Start(t)
	c := onServers(t, "/leaf", s.Addr())
	gap, missing := zookeepertest.NewProxy(t, s.Addr()), zookeepertest.NewProxy(t, s.Addr())
	var machines []*machine
	var daemons []*child
	for _, proxy := range []*zookeepertest.Proxy{gap, gap, missing} {
		m := c.behind(proxy, brisk()...)
		m.peers = 5 * time.Second
		machines, daemons = append(machines, m), append(daemons, m.ready())
	}
	for _, m := range machines {
		m.knows(2)
	}
	was := c.tree(s).cluster()
	gap.Down(t)
	missing.Down(t)
	s.Wipe(t)
	look := c.tree(s)

	for _, args := range [][]string{{"status"}, {"open"}, {"open", "--yes"}, {"recover"}, {"recover", "--yes"}} {
		o := c.built(append([]string{"cluster"}, args...)...)
		o.Failed(t, cli.ExitFailure, "nothing is at /leaf", "it has lost its data, or the ensemble is new", "start one that belongs to it")
		require.NotContains(t, o.Stderr, "init")
	}
	c.built("cluster", "init").Failed(t, cli.ExitUsage, "it has lost its data, or the ensemble is new", "--new")
	require.Contains(t, planned(t, c.built("cluster", "init", "--new")), "Would: make a new cluster at /leaf")
	for _, known := range [][]string{{"--data-dir", machines[0].dataDir()}, {"--known-address", daemons[1].addr}} {
		for _, sure := range [][]string{nil, {"--new"}, {"--new", "--yes"}} {
			c.built(slices.Concat([]string{"cluster", "init"}, known, sure)...).Failed(t, cli.ExitFailure, "no new cluster at /leaf", was, known[1])
		}
	}
	c.built("cluster", "init", "--new", "--yes", "--known-address", freeAddress(t)).Failed(t, cli.ExitFailure, "it is not known whether the daemon at ")
	_, stands, err := look.get("/leaf")
	require.NoError(t, err)
	require.False(t, stands, "nothing was made")

	gap.Up(t)
	requirePutBack(t, look, was, 0, machines[:2]...)
	for i, l := range daemons[:2] {
		look.settled(machines[i], l)
	}
	floor := clitest.FromJSON[cli.ClusterJSON](t, c.built("cluster", "status", "-o", "json").Stdout).Floor
	require.NotZero(t, floor)
	require.Contains(t, c.built("worker", "list").OK(t), ", 0 free until "+floor.Time().Format("2006-01-02 15:04:05")+": ")
	require.Regexp(t, `(?m)^NOT GOOD: closed: ZooKeeper has lost data, and gives out no worker ID before `+floor.String()+` .*leafd cluster open`, c.notGood())
	var plan cli.PlanJSON
	require.Eventually(t, func() bool { // once both are among the live
		plan = clitest.FromJSON[cli.PlanJSON](t, planned(t, c.built("cluster", "open", "-o", "json")))
		return plan.Daemons[0].Live && plan.Daemons[1].Live
	}, eventually, tick)
	require.Len(t, plan.Daemons, 3)
	require.Equal(t, inspect.Member{Address: daemons[2].addr, Found: "live before, and not now; A DAEMON RUNS THERE, and issues as worker 2"}, plan.Daemons[2])
	require.Regexp(t, `(?s)\ntrue .*\ntrue .*\nfalse .*Would: Open cluster .* 2 live, 1 missing\.`, planned(t, c.built("cluster", "open")))
	require.Contains(t, planned(t, c.built("cluster", "recover")), "Would: Note that ZooKeeper was set back")
	after := clitest.FromJSON[cli.ClusterJSON](t, c.built("cluster", "status", "-o", "json").Stdout)
	require.Equal(t, floor, after.Floor, "nothing was done")
	require.EqualValues(t, 1, after.Losses)

	missing.Up(t)
	look.settled(machines[2], daemons[2])
	require.Eventually(t, func() bool {
		return strings.Contains(planned(t, c.built("cluster", "open")), "3 live, 0 missing.")
	}, eventually, tick)
	require.Contains(t, c.built("cluster", "open", "--yes").OK(t), "3 are back")
	require.Eventually(t, func() bool { return c.built("cluster", "status").Code == cli.ExitOK }, eventually, tick)
	good := c.built("cluster", "status").OK(t)
	require.Contains(t, good, "\nGood: 3 of 3 daemons are ready.\n")
	for i, l := range daemons {
		require.Regexp(t, fmt.Sprintf(`(?m)^%d +\S+ +%s +(ready|degraded)`, i, regexp.QuoteMeta(l.addr)), good)
	}
	require.NotContains(t, c.built("worker", "list").OK(t), "until")

	for i, l := range daemons {
		require.EqualValues(t, i, l.info().ID)
		require.Zero(t, l.raised()[codeFenced])
		require.Equal(t, cli.ExitOK, l.stop())
	}
}

// The way back from a wrong init, as docs/operations/zookeeper.md has it: a new cluster was made where
// ZooKeeper had lost its data, a daemon joined that, and those of the lost one were fenced for good.
// No ID that was issued since is issued again.
func TestWayBackFromAWrongInit(t *testing.T) {
	t.Parallel()
	s := zookeepertest.Start(t)
	c := onServers(t, "/leaf", s.Addr())
	gap := zookeepertest.NewProxy(t, s.Addr())
	machines := []*machine{c.behind(gap, brisk()...), c.behind(gap, brisk()...)}
	daemons := []*child{machines[0].ready(), machines[1].ready()}
	was := c.tree(s).cluster()
	all := slices.Concat(daemons[0].some(), daemons[1].some())
	gap.Down(t)
	s.Wipe(t)
	require.Contains(t, c.built("cluster", "init", "--new", "--yes").OK(t), "Made cluster ", "no daemon is on this machine that could tell")
	m := c.host(brisk()...)
	wrong := m.ready()
	require.Zero(t, wrong.info().ID, "the worker ID of another")
	all = append(all, wrong.some()...)
	gap.Up(t)
	for _, l := range daemons {
		l.awaitLog("fenced for good")
	}
	all = append(all, wrong.some()...)

	// 1. Stop the daemons of the wrong cluster. 2. Remove it. 3. Restart those of the lost one.
	require.Equal(t, cli.ExitOK, wrong.stop())
	look := c.tree(s)
	look.removeAll("/leaf/leaf_forever")
	look.removeAll("/leaf/leaf_released")
	look.set("/leaf", "")
	for i, l := range daemons {
		l.stop()
		machines[i].settle = 0
		daemons[i] = machines[i].start()
	}
	for i, l := range daemons {
		l.awaitStatus("/readyz", 200)
		require.EqualValues(t, i, l.info().ID)
	}
	require.Equal(t, was, look.cluster())
	// 4. The others start on another data directory, and 5. get worker IDs once the cluster is open.
	refused := m.start()
	refused.exits(cli.ExitHeld)
	require.Contains(t, refused.Log(), "start with another data directory")
	require.NoError(t, os.Rename(m.dataDir(), m.dataDir()+".wrong"))
	fresh := m.start()
	fresh.awaitLog("gives out no worker ID before")
	require.Contains(t, planned(t, c.built("cluster", "open")), "2 live, 0 missing.")
	c.built("cluster", "open", "--yes").OK(t)
	fresh.awaitStatus("/readyz", 200)
	for _, l := range append(daemons, fresh) {
		all = append(all, l.some()...)
	}
	requireDistinct(t, all)
	workerIDsOf(t, append(daemons, fresh)...)
	for _, l := range append(daemons, fresh) {
		require.Equal(t, cli.ExitOK, l.stop())
	}
}
