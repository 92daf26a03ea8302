package server

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/ids/lend"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// Slices are for those that may have IDs: with their token, within their rate, under a name of their own, while the daemon
// is ready.
func TestSlices(t *testing.T) {
	var outvoted atomic.Bool
	r := start(t, func(c *Config) {
		c.Live = withCallers()
		c.Live.RateLimits = map[string]int{"payment": 15_999, "pay": 16_000}
		c.Conditions = func() []condition.Condition {
			if outvoted.Load() {
				return []condition.Condition{condition.Of(worker.ErrPeersDisagree, "", worker.ErrPeersDisagree)}
			}
			return nil
		}
	})
	const path, shop, ops = "/api/snowflake/lend/", "Authorization: Bearer " + shopToken, "Authorization: Bearer " + opsToken
	lends := func(key, name, header string) answer { return r.do("POST", path+key+"?slice="+name, "", header) }
	lends("order", "a-name-of-my-own", shop).requireError(t, 404, "mode_disabled")
	b, now := r.newBackend(), clock.MillisOf(time.Now())
	b.Slices = &ids.Slices{Worker: 7, At: func() (clock.Millis, clock.Millis, error) { return now, now + 30_000, nil }}
	r.SetBackend(b)
	lends("order", "a-name-of-my-own", shop).requireError(t, 404, "mode_disabled")
	b.Slices.Table = lend.New(4096, now+1500, time.Minute)
	early := lends("order", "a-name-of-my-own", shop)
	early.requireError(t, 503, "overloaded")
	require.Equal(t, "2", early.header.Get("Retry-After"))
	b.Slices.Table = lend.New(4096, now, time.Minute)
	for _, name := range []string{"", "short", "a_name_of_my_own", "a-name-of-my-own&n=1"} {
		lends("order", name, shop).requireError(t, 400, "bad_query")
	}
	lends("order", "a-name-of-my-own", "X: x").requireError(t, 401, "unauthorized")
	lends("secret", "a-name-of-my-own", shop).requireError(t, 401, "unauthorized")
	lends("payment", "a-name-of-my-own", shop).requireError(t, 429, "rate_limited")
	outvoted.Store(true)
	lends("order", "a-name-of-my-own", shop).requireError(t, 503, "peers_disagree")
	outvoted.Store(false)
	r.get(path+"order", shop).requireError(t, 405, "method_not_allowed")

	slice := func(a answer) (s ids.Lent) {
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.NoError(t, json.Unmarshal([]byte(a.body), &s))
		require.GreaterOrEqual(t, s.Now, now)
		s.Now = 0
		return s
	}
	lent := slice(lends("pay", "a-name-of-my-own", shop))
	require.Equal(t, ids.Lent{Slice: "a-name-of-my-own", Worker: 7, First: 4080, Last: 4095, From: now, Until: now + 30_000, Epoch: snowflake.DefaultEpoch, Layout: "41+10+12"}, lent)
	require.Equal(t, lent, slice(lends("order", "a-name-of-my-own", shop)), "the same")
	require.NotEqual(t, lent.First, slice(lends("order", "a-name-of-my-own", ops)).First, "another caller's")
	gives := func(name, used, header string) answer { return r.do("DELETE", path+name+"?used="+used, "", header) }
	gives("a-name-of-my-own", "x", shop).requireError(t, 400, "bad_query")
	require.Contains(t, gives("a-name-of-my-own", "1", "X: x").body, "false", "another's")
	scrape := r.get("/metrics").body
	for _, figure := range []string{"leafd_slots_lent 2", "leafd_slices_lent_total 3", "leafd_slices_refused_total 1"} {
		require.Contains(t, scrape, figure+"\n")
	}
	require.Contains(t, gives("a-name-of-my-own", "1", shop).body, "true")
	require.Contains(t, gives("a-name-of-my-own", "1", shop).body, "false", "once")
	require.Zero(t, r.used())
}
