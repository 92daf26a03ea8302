package server

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

func TestReadiness(t *testing.T) {
	var all []condition.Condition
	var mu sync.Mutex
	r := start(t, func(c *Config) {
		c.Conditions = func() []condition.Condition {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(all)
		}
	})
	set := func(now ...condition.Condition) {
		mu.Lock()
		defer mu.Unlock()
		condition.Sort(now)
		all = now
	}
	require.Equal(t, answerBody{Status: "ready"}, readyz(t, r, 200))
	require.JSONEq(t, `{"status":"ready"}`, r.get("/readyz").body)
	require.JSONEq(t, `{"status":"ok"}`, r.get("/healthz").body)

	store := condition.Of(segment.ErrStore, "MySQL", errors.New(secret))
	store.Cause = "connection refused by 10.0.0.7:3306"
	set(store)
	body := readyz(t, r, 200)
	require.Equal(t, "degraded", body.Status)
	require.Equal(t, views.Condition{
		Code: "segment_store", Subject: "MySQL", Severity: "alarm", Message: store.Headline, Cause: store.Cause, Action: store.Action, Age: body.Conditions[0].Age,
	}, body.Conditions[0])

	set(store, condition.Of(snowflake.ErrClockBackwards, "", errors.New(secret)))
	body = readyz(t, r, 503)
	require.Equal(t, "clock_backwards", body.Code)
	require.Equal(t, "not_ready", body.Status)
	require.Equal(t, []string{"clock_backwards", "segment_store"}, []string{body.Conditions[0].Code, body.Conditions[1].Code}, "the worst is first")
	require.NotContains(t, r.get("/readyz").body, "password")
	require.Equal(t, 200, r.get("/healthz").status)

	set(condition.Of(worker.ErrPeersDisagree, "", errors.New("by 7 s")))
	body = readyz(t, r, 503)
	require.Equal(t, "peers_disagree", body.Code)
	require.Equal(t, "10", r.get("/readyz").header.Get("Retry-After"))

	set(condition.ByCode(condition.WorkerIDLost, "", nil))
	require.Equal(t, "ready", readyz(t, r, 200).Status, "what is over degrades nothing")

	// Each kind by itself: what all daemons share makes no balancer take all of them away.
	ready := func(query string) int { return r.get("/readyz" + query).status }
	for _, test := range []struct {
		name                      string
		is                        condition.Condition
		plain, snowflake, segment int
	}{
		{"no range yet, the database is away", condition.Of(segment.ErrUnavailable, "MySQL", nil), 200, 200, 503},
		{"the database is away", store, 200, 200, 200},
		{"this disk takes no mark", condition.Of(segment.ErrMark, "/data", nil), 503, 200, 503},
		{"this clock", condition.Of(snowflake.ErrClockBackwards, "", nil), 503, 503, 200},
		{"no worker ID yet", condition.ByCode(condition.StartingUp, "", nil), 503, 503, 200},
	} {
		set(test.is)
		require.Equal(t, []int{test.plain, test.snowflake, test.segment}, []int{ready(""), ready("?kind=snowflake"), ready("?kind=segment")}, test.name)
	}
	for _, query := range []string{"?kind=", "?kind=Segment", "?kind=segment&kind=segment", "?kinds=segment"} {
		r.get("/readyz"+query).requireError(t, 400, "bad_query")
	}
	set(condition.Of(segment.ErrUnavailable, "MySQL", nil))
	served := *r.last.Load()
	one := served
	one.Snowflake, one.Refused = nil, nil
	r.SetBackend(&one)
	require.Equal(t, []int{503, 503}, []int{ready(""), ready("?kind=segment")}, "segments alone, and none yet")
	r.get("/readyz?kind=snowflake").requireError(t, 404, "mode_disabled")
	one = served
	one.Segments = nil
	r.SetBackend(&one)
	r.get("/readyz?kind=segment").requireError(t, 404, "mode_disabled")

	r.Drain()
	for _, query := range []string{"", "?kind=snowflake"} {
		require.Equal(t, 503, ready(query))
	}
	require.Equal(t, "draining", readyz(t, r, 503).Code)
}

// The body stays within what clients read of it.
func TestReadinessIsBounded(t *testing.T) {
	r := start(t, func(c *Config) {
		c.Conditions = func() (all []condition.Condition) {
			for i := range 1000 {
				one := condition.Of(segment.ErrBadRow, strconv.Itoa(i), nil)
				one.Cause = strings.Repeat("x", 300)
				all = append(all, one)
			}
			return all
		}
	})
	require.Len(t, readyz(t, r, 200).Conditions, 40)
	require.Less(t, len(r.get("/readyz").body), 48<<10)
}

type answerBody struct {
	Status, Code, Message string
	Conditions            []views.Condition
}

func readyz(t *testing.T, r *running, status int) answerBody {
	t.Helper()
	a := r.get("/readyz")
	require.Equal(t, status, a.status, a.body)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	var b answerBody
	require.NoError(t, json.Unmarshal([]byte(a.body), &b))
	return b
}
