package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clocktest"
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

// A summary has the last hour, a number a minute, of what has run of it.
func TestSummary(t *testing.T) {
	clk := clocktest.New(time.Now())
	r := start(t, func(c *Config) { c.Clock = clk })
	summary := func() (v views.Summary) {
		t.Helper()
		r.forgetLists()
		require.NoError(t, json.Unmarshal([]byte(r.get("/api/summary").body), &v))
		return v
	}
	v := summary()
	require.Equal(t, "ready", v.Status)
	require.Equal(t, int64(7), *v.WorkerID)
	require.Equal(t, "10.0.0.5:8080", v.Node)
	require.Equal(t, []float64{}, v.Hour)
	for range 360 {
		clk.Advance(views.HistoryInterval)
		r.views.TakeHistory()
	}
	v = summary()
	require.Len(t, v.Hour, 60)
	require.Less(t, len(r.get("/api/summary").body), views.SummaryBytes/4)
}

// crowdOf is a backend with peers that are HTTP daemons of their own: the first gives no answer, the second isn't
// ready, the third is degraded.
func (r *running) crowdOf(peers int) (b *views.Backend, asked *atomic.Int64) {
	r.t.Helper()
	asked = new(atomic.Int64)
	addresses := make([]string, peers)
	for i := range addresses {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			sum := views.Summary{WorkerID: new(int64(100 + i)), Node: fmt.Sprintf("node-%03d", i), Version: "1.2.3", Status: "ready", Snowflake: 1000, Segment: 10, Hour: []float64{0, 500, 1010}}
			switch i {
			case 0:
				w.WriteHeader(http.StatusNotFound)
				return
			case 1:
				sum.Status, sum.Code, sum.Message = "not_ready", "peers_disagree", "most daemons have another time <b>than</b> this one"
			case 2:
				sum.Status, sum.Message = "degraded", "half of the lease is over"
			}
			_ = json.NewEncoder(w).Encode(sum)
		}))
		r.t.Cleanup(s.Close)
		addresses[i] = strings.TrimPrefix(s.URL, "http://")
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	b = r.newBackend()
	b.Ask = func(ctx context.Context, path string, size, most int) ([]views.PeerAnswer, int, error) {
		asked.Add(1)
		answers := make([]views.PeerAnswer, 0, peers)
		for i, address := range addresses[:min(most, peers)] {
			a := views.PeerAnswer{Address: address, Instance: fmt.Sprint("instance ", i)}
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
			if err != nil {
				return nil, 0, err
			}
			response, err := client.Do(request)
			if err != nil {
				return nil, 0, err
			}
			if a.Body, a.Err = io.ReadAll(io.LimitReader(response.Body, int64(size))); response.StatusCode != http.StatusOK {
				a.Body, a.Err = nil, errors.New("no answer")
			}
			_ = response.Body.Close()
			answers = append(answers, a)
		}
		return answers, 0, nil
	}
	return b, asked
}

// No request waits for a peer, all share what was heard, and it is told when the live set can't be read.
func TestClusterIsShared(t *testing.T) {
	r := startEmpty(t, nil)
	require.Len(t, r.cluster().Daemons, 1, "itself, while it starts")
	b, asked := r.crowdOf(3)
	ask, fails := b.Ask, new(atomic.Bool)
	hang := make(chan struct{})
	b.Ask = func(ctx context.Context, path string, size, most int) ([]views.PeerAnswer, int, error) {
		if fails.Load() {
			return nil, 0, errors.New("the live set can't be read")
		}
		<-hang
		return ask(ctx, path, size, most)
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
