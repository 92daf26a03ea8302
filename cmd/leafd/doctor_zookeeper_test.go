package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/test/zookeepertest"
)

// From before the first daemon of a cluster to beside one that runs.
func TestDoctorOfACluster(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	m := c.machine()
	node := []string{"--node", "one"}
	d := m.doctor(m.addr, node...)
	require.Equal(t, cli.ExitFailure, d.code)
	d.result("zk-node", doctor.Fail, "nothing is at "+c.root, "it has lost its data, or the ensemble is new")
	d.only("zk-node", "zk-rights")
	_, found, err := o.get(c.root)
	require.NoError(t, err)
	require.False(t, found, "nothing was made")

	c.init()
	before := o.everything()
	d = m.doctor(m.addr, node...)
	d.well()
	d.result("zookeeper", doctor.OK, c.servers[0], "4s")
	d.result("zk-node", doctor.OK, "this data directory is new to cluster")
	d.result("zk-ids", doctor.OK, "1024 free of 1024")
	d.result("zk-rights", doctor.OK, "all that a daemon writes is allowed")
	d.result("peers", doctor.OK, "no other daemon is live")
	require.Equal(t, before, o.everything(), "nothing was made")

	l := m.ready(node...)
	d = m.doctor(m.addr, node...)
	d.well()
	d.result("zk-node", doctor.OK, `worker 0 of node "one": agrees with the local record`)
	d.result("listen", doctor.OK, "a daemon runs on this data directory")

	// Another machine of the same name, one on a copy of the directory, and one with a clock
	// of its own.
	twin := c.machine()
	d = twin.doctor(twin.addr, node...)
	d.well()
	d.result("zk-node", doctor.OK, "new to cluster")
	early := c.machine()
	require.NoError(t, os.CopyFS(early.dataDir(), os.DirFS(m.dataDir())))
	other := c.machine()
	d = other.doctor(other.addr)
	d.well()
	d.result("peers", doctor.OK, "1 peers")
	other.step(time.Hour)
	d = other.doctor(other.addr)
	require.Equal(t, cli.ExitClock, d.code)
	d.result("peers", doctor.Fail, "fix the clock")

	require.Equal(t, cli.ExitOK, l.stop())
	require.Equal(t, cli.ExitOK, m.ready(node...).stop())
	d = early.doctor(early.addr, node...) // of a life before
	require.Equal(t, cli.ExitFailure, d.code)
	d.result("zk-node", doctor.Fail, "written by a process that this data directory doesn't know", "sets its record aside")
	d = m.doctor(m.addr, node...)
	d.well()
	d.result("zk-node", doctor.OK, "agrees with the local record")
	m.step(-time.Hour)
	d = m.doctor(m.addr, node...)
	require.Equal(t, cli.ExitClock, d.code)
	d.only("record", "zk-node")
	d.result("zk-node", doctor.Skip, "recorded in ZooKeeper")
	m.step(time.Hour)

	d = m.doctor(m.addr, append(node, "--layout", "41+5+5+12")...)
	d.result("zk-node", doctor.Fail, "is for layout 41+10+12")
	d = m.doctor(m.addr, "--node", "renamed")
	d.result("record", doctor.Warn, `recorded for node "one"`)
	d = m.doctor(m.addr, "--zk-session-timeout", "1m")
	d.result("zookeeper", doctor.Warn, "grants a session of")
	require.NoError(t, zookeepertest.Shared(t).Conn(t).Delete(o.path(0), -1))
	d = m.doctor(m.addr, node...)
	d.well()
	d.result("zk-node", doctor.Warn, "worker 0 of node", "has lost what it had acknowledged")
}

func TestDoctorOfAFullCluster(t *testing.T) {
	t.Parallel()
	c := unmade(t)
	o := c.watch()
	o.filled("41+5+5+12", 32)
	o.create(o.root+"/leaf_released", "", 0)
	m := c.laterMachine("--layout", "41+5+5+12")
	d := m.doctor(m.addr)
	require.Equal(t, cli.ExitExhausted, d.code)
	d.result("zk-ids", doctor.Fail, "32 not live", "leafd worker release")

	// One that has passed its limit is left, and so is one that was given back.
	over := oldEntry(3)
	over.Limit = over.Ceiling
	o.set(o.path(3), jsonText(t, over))
	d = m.doctor(m.addr)
	d.well()
	d.result("zk-ids", doctor.Warn, "32 not live, 1 free of 32")
	over.State = "released"
	o.set(o.path(3), jsonText(t, over))
	d = m.doctor(m.addr)
	d.well()
	d.result("zk-ids", doctor.Warn, "31 not live, 1 released, 1 free of 32")
}

func TestDoctorOfZooKeeperThatRefuses(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	m := c.machine()
	conn := zookeepertest.Shared(t).Conn(t)
	acl, _, err := conn.GetACL("/")
	require.NoError(t, err)
	acl[0].Perms = 16 + 1 // changing the ACL, and reading
	_, err = conn.SetACL(c.root, acl, -1)
	require.NoError(t, err)
	d := m.doctor(m.addr)
	require.Equal(t, cli.ExitFailure, d.code)
	d.result("zk-rights", doctor.Fail, "set "+c.root+": not authorised", "--zk-auth-file")
	d.result("zookeeper", doctor.OK)
	acl[0].Perms = 16
	_, err = conn.SetACL(c.root, acl, -1)
	require.NoError(t, err)
	m.doctor(m.addr).only("zk-node", "zk-rights")

	// No server there at all.
	alone := newMachine(t)
	alone.zk = []string{"--zk", freeAddress(t)}
	d = alone.doctor(freeAddress(t), "--node", "n", "--timeout", "1s")
	require.Equal(t, cli.ExitFailure, d.code)
	d.only("zookeeper", "zk-node", "zk-rights", "peers")
	d = alone.doctor(freeAddress(t), "--node", "n", "--timeout", "1s", "--mysql", "leafd@tcp("+freeAddress(t)+")/leaf")
	require.Equal(t, "zookeeper", d.First.Check, "a daemon goes on without the database")
	segments := []string{"--node", "n", "--timeout", "1s", "--modes", "segment", "--mysql", "leafd@tcp(" + freeAddress(t) + ")/leaf"}
	alone.doctor(freeAddress(t), segments...).result("zookeeper", doctor.Warn, "segments are fetched all the same")
	alone.doctor(freeAddress(t), append(segments, "--segment-guard", "require")...).result("zookeeper", doctor.Fail, "no segment is fetched without")
	// One of two: a warning.
	half := c.machine()
	half.zk[1] += "," + freeAddress(t)
	half.zk[3] = "/elsewhere" + c.root
	d = half.doctor(half.addr, "--timeout", "4s")
	d.result("zookeeper", doctor.Warn, "gives no session")
	d.result("zookeeper", doctor.OK)
}
