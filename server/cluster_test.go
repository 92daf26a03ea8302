package server

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/views"
)

func (r *running) cluster() views.Cluster {
	r.t.Helper()
	var v views.Cluster
	require.NoError(r.t, json.Unmarshal([]byte(r.get("/api/cluster").body), &v))
	return v
}

// awaitCluster waits for what the peers say.
func (r *running) awaitCluster(done func(views.Cluster) bool) views.Cluster {
	r.t.Helper()
	var v views.Cluster
	require.Eventually(r.t, func() bool { r.forgetLists(); v = r.cluster(); return done(v) }, time.Minute, 10*time.Millisecond)
	return v
}

// No request waits for a peer, all share what was heard, and it is told when the live set can't be read.
func TestClusterIsShared(t *testing.T) {
	r := startEmpty(t, nil)
	require.Len(t, r.cluster().Daemons, 1, "itself, while it starts")
	b, hang := r.newBackend(), make(chan struct{})
	var asked atomic.Int64
	var fails atomic.Bool
	b.Ask = func(context.Context, string, int, int) ([]views.PeerAnswer, int, error) {
		if fails.Load() {
			return nil, 0, errors.New("the live set can't be read")
		}
		<-hang
		asked.Add(1)
		return []views.PeerAnswer{{Err: errors.New("no answer")}, {Body: []byte(`{"status":"not_ready","code":"peers_disagree"}`)}, {Body: []byte(`{"status":"degraded"}`)}}, 0, nil
	}
	r.SetBackend(b)
	r.forgetLists()
	first := r.cluster()
	require.Len(t, first.Daemons, 1, "nothing was heard yet")
	require.Zero(t, first.AsOf)
	close(hang)
	v := r.awaitCluster(func(v views.Cluster) bool { return len(v.Daemons) == 4 })
	require.True(t, v.Daemons[0].Self)
	require.False(t, v.Stale)
	require.NotZero(t, v.AsOf)
	var says []string
	for _, d := range v.Daemons[1:] {
		says = append(says, d.Status+" "+d.Code)
	}
	require.Equal(t, []string{"no_answer ", "not_ready peers_disagree", "degraded "}, says)
	for range 50 {
		r.forgetLists()
		r.cluster()
	}
	require.EqualValues(t, 1, asked.Load(), "once in 5 s, however many ask")

	fails.Store(true)
	v = r.awaitCluster(func(v views.Cluster) bool { return v.Stale })
	require.Len(t, v.Daemons, 4, "as last heard")
}
