package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/snowflake"
)

func TestRootIsThePageForBrowsersOnly(t *testing.T) {
	r := startEmpty(t, nil) // from the first moment on
	for _, test := range []struct {
		name, accept string
		page         bool
	}{
		{"curl", "*/*", false},
		{"Chromium", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7", true},
		{"capitals and spaces", "Text/HTML ; Q=0.5", true},
		{"any text", "text/*", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := r.get("/", "Accept: "+test.accept)
			require.Equal(t, 200, a.status)
			require.Equal(t, "Accept", a.header.Get("Vary"))
			require.Equal(t, "no-store", a.header.Get("Cache-Control"))
			if !test.page {
				require.Equal(t, reply.ContentText, a.header.Get("Content-Type"))
				require.Equal(t, string(embedded("api/endpoints.txt")), a.body)
				return
			}
			require.Equal(t, reply.ContentHTML, a.header.Get("Content-Type"))
			policy := a.header.Get("Content-Security-Policy")
			require.Contains(t, policy, "connect-src 'self';")
			require.Contains(t, policy, "require-trusted-types-for 'script'")
			require.NotRegexp(t, "unsafe|http", policy)
			require.NotContains(t, a.body, " src=")
			require.NotContains(t, a.body, `rel="stylesheet"`)
			require.NotRegexp(t, `\son[a-z]+=`, a.body, "a handler inside of an element")
			require.NotRegexp(t, `\bstyle=`, a.body)
		})
	}
}

// crowd is a backend of a cluster and a table of the largest size.
func (r *running) crowd(workers, tags int) *views.Backend {
	rows := make([]segment.Row, tags)
	for i := range rows {
		rows[i] = segment.Row{Tag: fmt.Sprintf("tag-%06d", i), MaxID: int64(i), Step: 1000}
	}
	b := r.newBackend()
	b.Segments = newTable(rows...)
	dice := rand.New(rand.NewPCG(1, 2))
	samples := make([]clock.Sample, 0, workers)
	list := make([]views.WorkerInfo, 0, workers)
	for i := range workers {
		address := fmt.Sprintf("10.0.%d.%d:8080", i/250, i%250+1)
		offset := time.Duration(dice.NormFloat64() * float64(time.Millisecond))
		switch i {
		case 17:
			offset = -8 * time.Second
		case 901:
			offset = 2 * time.Hour
		}
		shown := reply.Milliseconds(offset)
		info := views.WorkerInfo{ID: int64(i), Node: address, Address: address, State: views.WorkerLive, Timestamp: clock.MillisOf(time.Now())}
		if i%50 == 0 {
			info.State = views.WorkerNotLive
		} else if i != 7 {
			info.Offset = &shown
			s := clock.Sample{Address: address, Node: address, Offset: offset, RTT: time.Millisecond}
			if i == 33 {
				s.Err = errors.New("no answer")
			}
			samples = append(samples, s)
		}
		list = append(list, info)
	}
	b.Workers = func(context.Context) ([]views.WorkerInfo, error) { return list, nil }
	b.Guards = func() views.Guards {
		return views.Guards{
			Ceiling: clock.MillisOf(time.Now().Add(4 * time.Second)), CeilingDistance: reply.Milliseconds(4 * time.Second), CeilingLead: reply.Milliseconds(6 * time.Second),
			ReportInterval: reply.Milliseconds(3 * time.Second), Registry: "connected", RegistryServer: "10.0.0.1:2181",
		}
	}
	b.Clock = func() views.ClockInfo {
		return views.ClockInfo{Checked: clock.MillisOf(time.Now()), Verdict: clock.Estimate(samples, clock.Median), Threshold: 5 * time.Second, Samples: samples}
	}
	b.Layout = snowflake.DefaultLayout()
	return b
}
