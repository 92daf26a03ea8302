package server

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/clocktest"
)

func (r *running) hour() views.History {
	r.t.Helper()
	a := r.get("/api/history")
	require.Equal(r.t, 200, a.status, a.body)
	require.Equal(r.t, reply.ContentJSON, a.header.Get("Content-Type"))
	var h views.History
	require.NoError(r.t, json.Unmarshal([]byte(a.body), &h), a.body)
	return h
}

// The points of an hour, and no more, by the process's age.
func TestHistory(t *testing.T) {
	clk := clocktest.New(time.Now())
	r := startEmpty(t, func(c *Config) { c.Clock = clk })
	require.Equal(t, views.History{Interval: reply.Milliseconds(views.HistoryInterval), Points: []views.HistoryPoint{}}, r.hour(), "while it starts")
	r.SetBackend(r.newBackend())
	take := func() {
		clk.Advance(views.HistoryInterval)
		r.views.TakeHistory()
	}
	r.get(snowflakePrefix + "x?n=500")
	r.get(segmentPrefix + "order?n=25")
	r.get(segmentPrefix + "nothing")
	clk.Step(-time.Hour)
	take()
	first := views.HistoryPoint{Uptime: reply.Milliseconds(views.HistoryInterval), Snowflake: 50, Segment: 2.5, Errors: 0.1}
	require.Equal(t, []views.HistoryPoint{first}, r.hour().Points)
	r.views.TakeHistory()
	r.forgetLists()
	require.Len(t, r.hour().Points, 1, "no time has passed")
	for range 360 - 1 {
		take()
	}
	r.forgetLists() // they serve for a second
	points := r.hour().Points
	require.Len(t, points, 360)
	require.Equal(t, first, points[0])
	take()
	r.forgetLists()
	points = r.hour().Points
	require.Len(t, points, 360)
	require.Equal(t, views.HistoryPoint{Uptime: reply.Milliseconds(2 * views.HistoryInterval)}, points[0], "the oldest has made room")
	require.Equal(t, reply.Milliseconds((360+1)*views.HistoryInterval), points[360-1].Uptime)
	require.Less(t, len(r.get("/api/history").body), 64<<10)
}
