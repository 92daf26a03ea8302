package server

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
)

func (r *running) overview(query string) views.Overview {
	r.t.Helper()
	a := r.get("/api/overview" + query)
	require.Equal(r.t, 200, a.status, a.body)
	require.Equal(r.t, reply.ContentJSON, a.header.Get("Content-Type"))
	require.Equal(r.t, "no-store", a.header.Get("Cache-Control"))
	var o views.Overview
	require.NoError(r.t, json.Unmarshal([]byte(a.body), &o), a.body)
	return o
}

func TestOverviewFromTheFirstMomentOn(t *testing.T) {
	r := startEmpty(t, func(c *Config) { c.Node = "10.0.0.5:8080" })
	o := r.overview("")
	require.Equal(t, "not_ready", o.Ready.Status)
	require.Equal(t, "starting", o.Ready.Code)
	require.Equal(t, "10.0.0.5:8080", o.Node)
	require.Nil(t, o.Worker)
	require.Nil(t, o.Guards)
	require.Nil(t, o.Segments)
	require.Empty(t, o.Workers.List)

	r.SetBackend(r.newBackend())
	o = r.overview("")
	require.Equal(t, "ready", o.Ready.Status, "a new backend shows at once")
	require.EqualValues(t, 7, o.Worker.ID)
	require.Equal(t, 1, o.Workers.Live, "a daemon alone lists itself")
	require.Equal(t, "10.0.0.5:8080", o.Workers.List[0].Node)
	require.Equal(t, 2, o.Segments.Total)

	r.SetBackend(&views.Backend{})
	o = r.overview("")
	require.Nil(t, o.Segments, "switched off")
	require.Empty(t, o.Workers.List)
	r.get("/api/overview?tag=%01").requireError(t, 400, "bad_key")
	require.Nil(t, r.overview("?tag=x").Segments)
}

func TestOverviewIsBounded(t *testing.T) {
	r := startEmpty(t, nil)
	r.SetBackend(r.crowd(2000, 10_000))
	var o views.Overview
	require.Eventually(t, func() bool { o = r.overview(""); return o.Workers.Total > 0 }, time.Minute, 10*time.Millisecond)
	require.Equal(t, 2000, o.Workers.Total)
	require.Equal(t, 1960, o.Workers.Live)
	require.Len(t, o.Workers.List, 1000)
	require.Equal(t, 1000, o.Workers.LeftOut)
	require.Len(t, o.Clock.Peers, 1000)
	require.Equal(t, 959, o.Clock.LeftOut)
	require.Equal(t, 10_000, o.Segments.Total)
	require.Len(t, o.Segments.List, 100)
	require.Equal(t, 9_900, o.Segments.LeftOut)
	require.Less(t, len(r.get("/api/overview").body), 512<<10)

	o = r.overview("?tag=TAG-00999")
	require.Equal(t, 10, o.Segments.Matched)
	require.Zero(t, o.Segments.LeftOut)
	require.Equal(t, "tag-009990", o.Segments.List[0].Tag)
	require.Empty(t, r.overview("?tag=nothing").Segments.List)
}

func TestPagesAreBounded(t *testing.T) {
	r := startEmpty(t, nil)
	rows := make([]segment.Row, 1500)
	for i := range rows {
		rows[i] = segment.Row{Tag: fmt.Sprintf("tag-%04d", i), MaxID: 5, Step: 100}
	}
	b := r.newBackend()
	table := newTable(rows...)
	b.Segments, b.Admin = table, &segment.Table{Admin: tableAdmin{table}}
	r.SetBackend(b)
	for _, path := range []string{"/cache", "/db"} {
		a := r.get(path)
		require.Contains(t, a.body, "<td>tag-0999</td>")
		require.NotContains(t, a.body, "tag-1000")
		require.Contains(t, a.body, "The first 1000; more follow.")
		a = r.get(path + "?tag=TAG-149")
		require.Contains(t, a.body, "<td>tag-1499</td>")
		require.NotContains(t, a.body, "tag-1489")
		require.NotContains(t, a.body, "more follow")
	}
	require.Contains(t, r.get("/cache").body, `<th>name</th><th>init</th><th>next</th><th class="n">pos</th><th class="n">value0</th><th class="n">max0</th><th class="n">step0</th><th class="n">value1</th><th class="n">max1</th><th class="n">step1</th>`)
	require.Contains(t, r.get("/db").body, `<th>tag</th><th class="n">max</th><th class="n">step</th><th>update</th>`)
	require.Contains(t, r.get("/cache?tag=0001").body, `<td>tag-0001</td><td>true</td><td>false</td><td class="n">0</td><td class="n">0</td><td class="n">105</td><td class="n">100</td><td></td>`)
}
