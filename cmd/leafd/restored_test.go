package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ZooKeeper loses what it has, or is set back to a backup.

// The server's disk is emptied under load. The running nodes write their entries
// again. A new node is there first: it waits for them, and gets a worker ID that none of
// them has. Those that were down come back later, with their own.
func TestZooKeeperLosesItsDataUnderLoad(t *testing.T) {
	s := ownStory(t)
	run, down := []string{"a", "b", "c"}, []string{"stopped", "killed"}
	old := append(run[:3:3], down...)
	for _, name := range old {
		s.host(name)
	}
	s.ready(old...)
	was := s.workerIDs(old...)
	s.ids(old...)
	s.stop("stopped")
	s.kill("killed")
	s.asked(run...)
	s.flows(run...)
	s.cut(run...) // so that the new one is there before them, on any schedule
	s.wipe()
	s.host("new")
	s.settles("new")
	s.start("new")
	s.told("new", "waiting: no_cluster", "it has lost its data, or the ensemble is new")
	s.heal(run...)
	for _, name := range run {
		s.hosts[name].awaitAlarm(codeDataLost, 1)
	}
	s.confirmed(run...)
	s.told("new", "gives out no worker ID before", "leafd cluster open")
	s.refuses("new", "starting")
	s.settles(down...)
	s.ready(down...)
	s.confirmed(down...)
	require.Equal(t, was, s.workerIDs(old...))
	require.Contains(t, s.says("cluster", "open"), "are back")
	s.ready("new")
	s.workerIDs(append(old, "new")...)
	s.ids("new", "stopped", "killed")
	s.flows(run...)
	require.EqualValues(t, 1, s.status().Losses)
	s.never(codeFenced, old...)
}

// A daemon with --release-on-stop stops, and another one takes its worker ID. ZooKeeper is
// set back to when the first one had it. The first one, started again, knows that it
// released the worker ID, and leaves it to its holder, which is cut off.
func TestRestoredBeforeARelease(t *testing.T) {
	s := ownStory(t)
	s.host("released", "--release-on-stop")
	s.host("holder")
	s.ready("released")
	s.ids("released")
	backup := s.zk.Backup(t)
	s.stop("released")
	s.ready("holder")
	s.is("holder", 0)
	s.asked("holder")
	s.flows("holder")

	s.cut("holder")
	s.restore(backup)
	s.says("cluster", "recover")
	s.settles("released")
	s.start("released")
	s.silent("released", 20*time.Second)
	s.flows("holder")
	s.heal("holder")
	s.confirmed("holder")
	require.EqualValues(t, 1, s.status().Losses)
	s.says("cluster", "open")
	s.ready("released")
	s.is("holder", 0)
	s.is("released", 1)
	s.ids("released")
	s.flows("holder")
	s.never(codeFenced, "holder", "released")
}
