package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/zookeepertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRig(t *testing.T, server *zookeepertest.Server) *rig {
	return &rig{t: t, server: server, conn: server.Conn(t), note: t.Logf}
}

// requireBounds wants every bound of requests kept.
func requireBounds(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Logf("%+v", r)
		require.False(t, r.missed(), "%s: %d requests, and %d are allowed; %s", r.step, r.most, r.bound, r.says)
	}
}

// A start costs few requests, however many start at once.
func TestStarts(t *testing.T) {
	t.Parallel()
	const n = 12
	r := newRig(t, zookeepertest.Start(t))
	requireBounds(t, r.young(n))
	requireBounds(t, r.starts(n))
}

// A daemon that runs hardly notices another one that comes or goes, and reports again once
// ZooKeeper is back.
func TestRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t, zookeepertest.Start(t))
	requireBounds(t, r.running(30, 500*time.Millisecond, 200*time.Millisecond))
}
