package server

import (
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
)

// scraped is what GET /metrics shows of requests for IDs, by mode and batch.
type scraped struct {
	issued   map[string]float64
	requests map[string]*dto.Histogram
}

func (r *running) scrape(t testing.TB) scraped {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(r.get("/metrics").body))
	require.NoError(t, err)
	s := scraped{map[string]float64{}, map[string]*dto.Histogram{}}
	labels := func(m *dto.Metric) string {
		var values []string
		for _, l := range m.GetLabel() {
			values = append(values, l.GetName()+"="+l.GetValue())
		}
		return strings.Join(values, " ")
	}
	for _, m := range families["leafd_ids_issued_total"].GetMetric() {
		s.issued[labels(m)] = m.GetCounter().GetValue()
	}
	for _, m := range families["leafd_http_request_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		s.requests[labels(m)] = h
		require.Len(t, h.GetBucket(), 20)
		var below uint64
		for i, b := range h.GetBucket() {
			if i < 19 {
				require.Less(t, b.GetUpperBound(), h.GetBucket()[i+1].GetUpperBound())
			}
			require.GreaterOrEqual(t, b.GetCumulativeCount(), below)
			below = b.GetCumulativeCount()
		}
		require.Equal(t, below, h.GetSampleCount(), "the last one is +Inf")
	}
	return s
}

func (s scraped) counts() map[string]uint64 {
	counts := map[string]uint64{}
	for labels, h := range s.requests {
		counts[labels] = h.GetSampleCount()
	}
	return counts
}

func TestRequestsAreCounted(t *testing.T) {
	r := start(t, nil)
	zero := map[string]uint64{"batch=no mode=snowflake": 0, "batch=yes mode=snowflake": 0, "batch=no mode=segment": 0, "batch=yes mode=segment": 0}
	require.Equal(t, zero, r.scrape(t).counts(), "all are there from the start")

	for range 3 {
		require.Equal(t, 200, r.get(snowflakePrefix+"x").status)
	}
	require.Equal(t, 200, r.get(snowflakePrefix+"x?n=1").status)
	require.Equal(t, 200, r.get(snowflakePrefix+"x", "Accept: application/json").status)
	require.Equal(t, 200, r.get(snowflakePrefix+"x?n=500").status)
	require.Equal(t, 200, r.get(segmentPrefix+"order").status)
	require.Equal(t, 200, r.get(segmentPrefix+"order?n=20").status)
	require.Equal(t, 200, r.get(segmentPrefix+"order?n=30", "Accept: application/json").status)
	// Nothing is asked for.
	require.Equal(t, 200, r.do("HEAD", snowflakePrefix+"x", "").status)
	require.Equal(t, 400, r.get(snowflakePrefix+"x?n=0").status)
	require.Equal(t, 405, r.do("PUT", segmentPrefix+"order", "").status)
	require.Equal(t, 200, r.get("/api/worker").status)
	s := r.scrape(t)
	want := map[string]uint64{"batch=no mode=snowflake": 5, "batch=yes mode=snowflake": 1, "batch=no mode=segment": 1, "batch=yes mode=segment": 2}
	require.Equal(t, want, s.counts())
	require.Equal(t, map[string]float64{"mode=snowflake": 505, "mode=segment": 51}, s.issued)
	for labels, h := range s.requests {
		require.Positive(t, h.GetSampleSum(), labels)
	}

	// A failure is a request, and no ID.
	r.flake.fail(snowflake.ErrClockBackwards)
	require.Equal(t, 503, r.get(snowflakePrefix+"x").status)
	require.Equal(t, 503, r.get(snowflakePrefix+"x?n=7").status)
	require.Equal(t, 404, r.get(segmentPrefix+"none").status)
	s = r.scrape(t)
	require.Equal(t, map[string]uint64{"batch=no mode=snowflake": 6, "batch=yes mode=snowflake": 2, "batch=no mode=segment": 2, "batch=yes mode=segment": 2}, s.counts())
	require.Equal(t, map[string]float64{"mode=snowflake": 505, "mode=segment": 51}, s.issued)
}

// A request that waits stands in the bucket of how long it waited.
func TestWaitingIsMeasured(t *testing.T) {
	r := start(t, nil)
	r.flake.block, r.flake.begun = make(chan struct{}), make(chan struct{})
	answered := make(chan answer, 1)
	go func() { answered <- r.get(snowflakePrefix + "x?n=3") }()
	<-r.flake.begun
	time.Sleep(60 * time.Millisecond)
	close(r.flake.block)
	require.Equal(t, 200, (<-answered).status)
	h := r.scrape(t).requests["batch=yes mode=snowflake"]
	require.EqualValues(t, 1, h.GetSampleCount())
	require.GreaterOrEqual(t, h.GetSampleSum(), 0.05)
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() <= 0.05 {
			require.Zero(t, b.GetCumulativeCount(), b.GetUpperBound())
		}
	}
}
