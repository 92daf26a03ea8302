package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

func TestReadiness(t *testing.T) {
	r := start(t, nil)
	require.Equal(t, answerBody{Status: "ready"}, readyz(t, r, 200))
	require.JSONEq(t, `{"status":"ready"}`, r.get("/readyz").body)
	require.JSONEq(t, `{"status":"ok"}`, r.get("/healthz").body)

	b := r.newBackend()
	var store, flake error
	var mu sync.Mutex
	check := func(name string, err *error) Check {
		return Check{Name: name, Ready: func() error {
			mu.Lock()
			defer mu.Unlock()
			return *err
		}}
	}
	b.Checks = []Check{check("store", &store), check("snowflake", &flake)}
	r.SetBackend(b)
	require.Len(t, readyz(t, r, 200).Checks, 2)

	mu.Lock()
	flake = snowflake.ErrClockBackwards
	mu.Unlock()
	body := readyz(t, r, 503)
	require.Equal(t, "clock_backwards", body.Code)
	require.Equal(t, "not_ready", body.Status)
	require.True(t, body.Checks[0].OK)
	require.False(t, body.Checks[1].OK)

	mu.Lock()
	store = errors.New(secret)
	mu.Unlock()
	body = readyz(t, r, 503)
	require.Equal(t, "not_ready", body.Code, "the first one that fails")
	require.Contains(t, body.Message, "store")
	require.Equal(t, "clock_backwards", body.Checks[1].Code)
	require.NotContains(t, r.get("/readyz").body, "password")
	require.Equal(t, 200, r.get("/healthz").status)

	mu.Lock()
	store, flake = nil, fmt.Errorf("%w: by 7 s", worker.ErrPeersDisagree)
	mu.Unlock()
	body = readyz(t, r, 503)
	require.Equal(t, "clock_offset", body.Code)
	require.Equal(t, "clock_offset", body.Checks[1].Code)
	require.Equal(t, "10", r.get("/readyz").header.Get("Retry-After"))

	r.Drain()
	require.Equal(t, "draining", readyz(t, r, 503).Code)
}

// "leafd's log says how" has to be true, and a prober that comes every second
// must not fill the disk with it.
func TestFailedChecksAreLoggedNowAndThen(t *testing.T) {
	r := start(t, nil)
	b := r.newBackend()
	failing := errors.New(secret)
	b.Checks = []Check{
		{Name: "disk", Ready: func() error { return failing }},
		{Name: "snowflake", Ready: func() error { return snowflake.ErrClockBackwards }},
	}
	r.SetBackend(b)
	for range 100 {
		require.Equal(t, "not_ready", readyz(t, r, 503).Code)
	}
	log := r.log.String()
	require.Contains(t, log, `"check":"disk"`)
	require.Contains(t, log, secret)
	require.LessOrEqual(t, strings.Count(log, secret), 10)
	require.NotContains(t, log, `"check":"snowflake"`, "what the answer tells whole needs no line")
}

type answerBody struct {
	Status, Code, Message string
	Checks                []checkResult
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
