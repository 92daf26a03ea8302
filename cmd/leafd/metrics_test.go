package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// scraped are the metrics on a page, by name.
type scraped map[string]*dto.MetricFamily

func parseMetrics(t *testing.T, page string) scraped {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err)
	return families
}

// value returns the sample of name with labels, given as name and value in turn.
func (s scraped) value(name string, labels ...string) (float64, bool) {
	for _, m := range s[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		all := true
		for i := 0; i < len(labels); i += 2 {
			all = all && has[labels[i]] == labels[i+1]
		}
		if all {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()), true
		}
	}
	return 0, false
}

// scrape returns a page of metrics that was made after the call: one page serves for a
// tenth of a second, and no two of them are equal.
func (l *child) scrape() string {
	l.t.Helper()
	shared := l.mustGet("/metrics")
	page := shared
	require.Eventually(l.t, func() bool {
		page = l.mustGet("/metrics")
		return page.body != shared.body
	}, eventually, 10*time.Millisecond)
	require.Equal(l.t, http.StatusOK, page.status, page.body)
	return page.body
}

// awaitMetric waits until a sample is what it should be.
func (l *child) awaitMetric(good func(float64) bool, name string, labels ...string) {
	l.t.Helper()
	var last float64
	var there bool
	require.Eventually(l.t, func() bool {
		a, err := l.get("/metrics")
		if err != nil || a.status != http.StatusOK {
			return false
		}
		last, there = parseMetrics(l.t, a.body).value(name, labels...)
		return there && good(last)
	}, eventually, 20*time.Millisecond, "%s%q", name, labels)
}

func above(least float64) func(float64) bool { return func(v float64) bool { return v > least } }
func is(want float64) func(float64) bool     { return func(v float64) bool { return v == want } }

// fullPage is a scrape of a daemon that has everything to tell: a cluster, a peer
// that answers, a lease, a tag in use, and a caller. issued is how many IDs of the tag it gave.
func fullPage(t *testing.T) (l *child, page string, issued int) {
	t.Helper()
	c := onShared(t)
	config := clitest.WriteFile(t, "leafd.yaml", "")
	first := c.machine("--config", config, "--lease", "1h", "--zk-session-timeout", "20s") // a busy machine's ZooKeeper is connected
	first.peers = 100 * time.Millisecond
	l = first.ready(sharedTable(t)...)
	c.machine().ready()
	require.Equal(t, http.StatusOK, l.mustGet("/api/snowflake/get/x?n=5").status)
	require.Equal(t, http.StatusNotFound, l.mustGet("/api/segment/get/none").status)
	l.awaitMetric(is(1), "leafd_clock_peers", "answered", "yes")
	// A rate takes IDs handed out between two looks.
	require.Eventually(t, func() bool {
		if a, err := l.get("/api/segment/get/a"); err != nil || a.status != http.StatusOK {
			return false
		}
		issued++
		a, err := l.get("/metrics")
		return err == nil && strings.Contains(a.body, `leafd_segment_remaining_seconds{tag="a"}`)
	}, eventually, 20*time.Millisecond)
	l.awaitMetric(above(0), "leafd_reports_total", "to", "zookeeper")
	rewrite(t, config, "tokens-file: "+clitest.WriteFile(t, "tokens.yaml", "- {name: shop, ids: order, sha256: "+strings.Repeat("1f", 32)+"}")) // now that no more IDs are asked for
	l.hup()
	l.awaitMetric(is(0), "leafd_caller_requests_total", "caller", "shop")
	return l, l.scrape(), issued
}

func TestMetricsOfARealDaemon(t *testing.T) {
	t.Parallel()
	l, page, issued := fullPage(t)
	all := parseMetrics(t, page)
	for _, test := range []struct {
		good   func(float64) bool
		name   string
		labels []string
	}{
		{is(1), "leafd_ready", nil},
		{is(1), "leafd_worker_state", []string{"state", "live"}},
		{is(0), "leafd_worker_state", []string{"state", "worker_fenced"}},
		{is(1), "leafd_worker_info", []string{"worker", "0", "node", l.addr, "layout", "41+10+12"}},
		{above(0), "leafd_ceiling_distance_seconds", nil},
		{above(3500), "leafd_lease_distance_seconds", nil},
		{above(0), "leafd_reports_total", []string{"to", "file"}},
		{above(-1), "leafd_report_failures_total", []string{"to", "zookeeper"}}, // on a busy machine one may be
		{is(1), "leafd_zookeeper_session_state", []string{"state", "connected"}},
		{is(0), "leafd_zookeeper_session_expiries_total", nil},
		{is(5), "leafd_ids_issued_total", []string{"mode", "snowflake"}},
		{is(float64(issued)), "leafd_segment_ids_issued_total", []string{"tag", "a"}},
		{is(0), "leafd_segment_ids_issued_total", []string{"tag", "_other"}},
		{above(0), "leafd_segment_fetch_duration_seconds", nil},
		{above(0), "leafd_segment_step", []string{"tag", "a"}},
		{is(1), "leafd_http_errors_total", []string{"code", "unknown_key"}},
		{above(50 * 31557600), "leafd_layout_remaining_seconds", nil},
	} {
		got, there := all.value(test.name, test.labels...)
		require.True(t, there, "%s%q", test.name, test.labels)
		require.True(t, test.good(got), "%s%q is %v", test.name, test.labels, got)
	}
	t.Run("documented", func(t *testing.T) { checkDocumented(t, all) })
	t.Run("used by the rules", func(t *testing.T) { checkUsed(t, all) })
	require.Equal(t, cli.ExitOK, l.stop())
}
