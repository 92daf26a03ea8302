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
)

func (r *running) cluster() Cluster {
	r.t.Helper()
	var v Cluster
	require.NoError(r.t, json.Unmarshal([]byte(r.get("/api/cluster").body), &v))
	return v
}

// awaitCluster waits for what the peers say.
func (r *running) awaitCluster(done func(Cluster) bool) Cluster {
	r.t.Helper()
	var v Cluster
	require.Eventually(r.t, func() bool { r.views.forgetLists(); v = r.cluster(); return done(v) }, time.Minute, 10*time.Millisecond)
	return v
}

// A summary has the last hour, a number a minute, of what has run of it.
func TestSummary(t *testing.T) {
	r := start(t, nil)
	summary := func() (v Summary) {
		t.Helper()
		r.views.forgetLists()
		require.NoError(t, json.Unmarshal([]byte(r.get("/api/summary").body), &v))
		return v
	}
	v := summary()
	require.Equal(t, "ready", v.Status)
	require.Equal(t, int64(7), *v.WorkerID)
	require.Equal(t, "10.0.0.5:8080", v.Node)
	require.Equal(t, []float64{}, v.Hour)
	var ids float64
	for i := range historyPoints + 10 {
		ids += float64(i) * 10 // i IDs a second
		r.views.history.take(time.Duration(i+1)*historyInterval, [3]float64{ids, 0, 0})
		if i == 13 {
			v = summary()
			require.Equal(t, []float64{4.5, 10.5}, v.Hour, "two whole minutes, and 20 s that are older")
			require.InDelta(t, 13, v.Snowflake, 0)
		}
	}
	v = summary()
	require.Len(t, v.Hour, hourPoints)
	require.InDelta(t, 12.5, v.Hour[0], 0)
	require.InDelta(t, 366.5, v.Hour[hourPoints-1], 0)
	require.Less(t, len(r.get("/api/summary").body), SummaryBytes/4)
}

// What a peer says is bounded, and nothing of it is believed that no daemon says.
func TestPeersAreNotTrusted(t *testing.T) {
	r := start(t, nil)
	long := strings.Repeat("x", 1000)
	for name, tc := range map[string]struct {
		answer PeerAnswer
		status string
		check  func(Summary) bool
	}{
		"a daemon":        {PeerAnswer{Body: []byte(`{"worker_id":3,"node":"n","status":"degraded","message":"m","snowflake":5,"hour":[1,2]}`)}, "degraded", func(s Summary) bool { return *s.WorkerID == 3 && s.Snowflake == 5 && len(s.Hour) == 2 }},
		"none":            {PeerAnswer{Err: errors.New("no answer")}, "no_answer", func(s Summary) bool { return s.Message == "no answer" && s.Hour != nil }},
		"no JSON":         {PeerAnswer{Body: []byte(`<html>`)}, "no_answer", nil},
		"another service": {PeerAnswer{Body: []byte(`{"node":"n"}`)}, "no_answer", func(s Summary) bool { return s.Node == "" }},
		"unknown status":  {PeerAnswer{Body: []byte(`{"status":"<b>"}`)}, "no_answer", nil},
		"long texts":      {PeerAnswer{Body: fmt.Appendf(nil, `{"status":"ready","node":%q,"version":%q,"code":%q,"message":%q}`, long, long, long, long)}, "ready", func(s Summary) bool { return len(s.Node)+len(s.Version)+len(s.Code)+len(s.Message) < 4*310 }},
		"a long hour":     {PeerAnswer{Body: []byte(`{"status":"ready","hour":[` + strings.Repeat("1,", 500) + `2]}`)}, "ready", func(s Summary) bool { return len(s.Hour) == hourPoints && s.Hour[hourPoints-1] == 2 }},
		"impossible rates": {PeerAnswer{Body: []byte(`{"status":"ready","snowflake":-1,"segment":1e300,"hour":[1e300,-5,3]}`)}, "ready", func(s Summary) bool {
			return s.Snowflake == 0 && s.Segment == 0 && s.Hour[0]+s.Hour[1] == 0 && s.Hour[2] == 3
		}},
		"numbers as texts": {PeerAnswer{Body: []byte(`{"status":"ready","snowflake":"5"}`)}, "no_answer", nil},
	} {
		s := r.views.summaryOf(tc.answer)
		require.Equal(t, tc.status, s.Status, name)
		require.True(t, tc.check == nil || tc.check(s), "%s: %+v", name, s)
	}
}

// crowdOf is a backend with peers that are HTTP daemons of their own: the first gives no answer, the second isn't
// ready, the third is degraded.
func (r *running) crowdOf(peers int) (b *Backend, asked *atomic.Int64) {
	r.t.Helper()
	asked = new(atomic.Int64)
	addresses := make([]string, peers)
	for i := range addresses {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			sum := Summary{WorkerID: new(int64(100 + i)), Node: fmt.Sprintf("node-%03d", i), Version: "1.2.3", Status: "ready", Snowflake: 1000, Segment: 10, Hour: []float64{0, 500, 1010}}
			switch i {
			case 0:
				w.WriteHeader(http.StatusNotFound)
				return
			case 1:
				sum.Status, sum.Code, sum.Message = "not_ready", "clock_offset", "most daemons have another time <b>than</b> this one"
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
	b.Ask = func(ctx context.Context, path string, size, most int) ([]PeerAnswer, int, error) {
		asked.Add(1)
		answers := make([]PeerAnswer, 0, peers)
		for i, address := range addresses[:min(most, peers)] {
			a := PeerAnswer{Address: address, Instance: fmt.Sprint("instance ", i)}
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
	b.Ask = func(ctx context.Context, path string, size, most int) ([]PeerAnswer, int, error) {
		if fails.Load() {
			return nil, 0, errors.New("the live set can't be read")
		}
		<-hang
		return ask(ctx, path, size, most)
	}
	r.SetBackend(b)
	r.views.forgetLists()
	first := r.cluster()
	require.Len(t, first.Daemons, 1, "nothing was heard yet")
	require.Zero(t, first.AsOf)
	close(hang)
	v := r.awaitCluster(func(v Cluster) bool { return len(v.Daemons) == 4 })
	require.True(t, v.Daemons[0].Self)
	require.False(t, v.Stale)
	require.NotZero(t, v.AsOf)
	var says []string
	for _, d := range v.Daemons[1:] {
		says = append(says, d.Status+" "+d.Code)
	}
	require.Equal(t, []string{"no_answer ", "not_ready clock_offset", "degraded "}, says)
	for range 50 {
		r.views.forgetLists()
		r.cluster()
	}
	require.EqualValues(t, 1, asked.Load(), "once in 5 s, however many ask")

	fails.Store(true)
	r.views.others.forget()
	v = r.awaitCluster(func(v Cluster) bool { return v.Stale })
	require.Len(t, v.Daemons, 4, "as last heard")
}
