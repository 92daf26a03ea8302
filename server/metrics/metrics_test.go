package metrics

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fake is a daemon that says what the test wants.
type fake struct {
	record    worker.Record
	stats     worker.Stats
	samples   []clock.Sample
	threshold time.Duration
	generator snowflake.Stats
	session   zksession.Info
	tags      []segment.Status
	guard     segment.GuardStatus
	state     string
	ready     bool
}

type (
	fakeWorker    struct{ *fake }
	fakeGenerator struct{ *fake }
	fakeSession   struct{ *fake }
	fakeSegments  struct{ *fake }
)

func (f fakeWorker) Stats() worker.Stats      { return f.stats }
func (f fakeWorker) Record() worker.Record    { return f.record }
func (f fakeWorker) Threshold() time.Duration { return f.threshold }
func (f fakeWorker) Peers() ([]clock.Sample, clock.Verdict, clock.Millis) {
	return f.samples, clock.Estimate(f.samples, clock.Median), 1
}
func (f fakeWorker) Vote() clock.Vote             { return clock.VoteOf(f.samples, f.threshold) }
func (f fakeGenerator) Stats() snowflake.Stats    { return f.generator }
func (f fakeSession) Session() zksession.Info     { return f.session }
func (f fakeSegments) Len() int                   { return 2 * len(f.tags) }
func (f fakeSegments) Guard() segment.GuardStatus { return f.guard }
func (f fakeSegments) Used(yield func(segment.Status) bool) {
	for _, st := range f.tags {
		if !yield(st) {
			return
		}
	}
}

var states = []string{"starting", "active", "fenced"}

func newFake(t testing.TB) (*fake, *Metrics, *prometheus.Registry) {
	t.Helper()
	f := &fake{threshold: 5 * time.Second, state: "active"}
	reg := prometheus.NewPedanticRegistry()
	m, err := New(Config{Registerer: reg, Clock: clocktest.New(noon), Ready: func() bool { return f.ready }, States: states})
	require.NoError(t, err)
	return f, m, reg
}

func (f *fake) setAll(m *Metrics) {
	m.SetSnowflake(Snowflake{
		Worker: fakeWorker{f}, Generator: fakeGenerator{f}, Layout: snowflake.DefaultLayout(), State: func() string { return f.state },
	})
	m.SetSession(fakeSession{f})
	m.SetSegments(fakeSegments{f})
}

// scrape returns what is shown, as "name{label=value,…}".
func scrape(t testing.TB, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := gather(reg)
	require.NoError(t, err)
	return all
}

// gather is scrape off the test's goroutine.
func gather(reg *prometheus.Registry) (map[string]float64, error) {
	families, err := reg.Gather()
	all := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := family.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case metric.GetGauge() != nil:
				all[name] = metric.GetGauge().GetValue()
			case metric.GetCounter() != nil:
				all[name] = metric.GetCounter().GetValue()
			default:
				all[name] = float64(metric.GetHistogram().GetSampleCount())
			}
		}
	}
	return all, err
}

func TestConfigIsChecked(t *testing.T) {
	reg, clk, ready := prometheus.NewRegistry(), clocktest.New(noon), func() bool { return true }
	for _, cfg := range []Config{{}, {Clock: clk, Ready: ready}, {Registerer: reg, Ready: ready}, {Registerer: reg, Clock: clk}} {
		_, err := New(cfg)
		require.Error(t, err)
	}
	cfg := Config{Registerer: reg, Clock: clk, Ready: ready}
	_, err := New(cfg)
	require.NoError(t, err)
	_, err = New(cfg)
	require.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}

func TestBeforeAnythingIsThere(t *testing.T) {
	_, _, reg := newFake(t)
	want := map[string]float64{
		"leafd_ready":                        0,
		"leafd_worker_state{state=starting}": 1, "leafd_worker_state{state=active}": 0, "leafd_worker_state{state=fenced}": 0,
		"leafd_segment_fetch_duration_seconds":             0,
		"leafd_segment_fetch_failures_total{reason=other}": 0,
	}
	for _, r := range segment.Reasons() {
		want["leafd_segment_fetch_failures_total{reason="+r.Name+"}"] = 0
	}
	require.Equal(t, want, scrape(t, reg))
}

func TestWhatIsShown(t *testing.T) {
	f, m, reg := newFake(t)
	f.setAll(m)
	f.ready = true
	f.record = worker.Record{WorkerID: 7, Node: "a:1", Layout: "41+10+12", Cluster: "c"}
	f.stats = worker.Stats{
		UntilCeiling: 6 * time.Second, UntilLease: time.Minute, Registered: true,
		File: worker.Reports{Done: 1, Failed: 2, Age: 3 * time.Second}, Registry: worker.Reports{Done: 4, Failed: 5, Age: 6 * time.Second},
		StepsAhead: 7, StepsBack: 8, PeersAsked: true, PeersAge: 9 * time.Second,
	}
	f.samples = []clock.Sample{
		{Address: "b:1", Offset: 250 * time.Millisecond},
		{Address: "c:1", Err: errors.New("silent")},
		{Address: "d:1", Offset: -time.Second},
		{Address: "b:1", Offset: 200 * time.Millisecond}, // twice: once is shown
	}
	f.generator = snowflake.Stats{
		TickWaits: 1, RollbackWaits: 2, CeilingWaits: 3,
		RefusedBackwards: 4, RefusedCeiling: 5, RefusedExhausted: 6, RefusedStopped: 7, GivenUp: 8,
	}
	f.session = zksession.Info{State: zksession.Disconnected, Connects: 3, Expiries: 2}
	f.guard = segment.GuardStatus{On: true, Unguarded: 7, Conflicts: 8, GivenUp: 9, Behind: true}
	f.tags = []segment.Status{
		{Tag: "order", Issued: 100, Rate: 10, Remaining: new(90.0), Step: 1000},
		{Tag: "failing", Issued: 5, Step: 2, Failures: 4},
		{Tag: "empty", Failures: 1, Remaining: new(0.0)},
		{Tag: "idle", Issued: 1},
		{Tag: "never"},
	}
	m.Fetched("order", time.Millisecond, nil)
	m.Fetched("order", time.Second, fmt.Errorf("x: %w", segment.ErrLocked))
	m.Fetched("order", time.Second, fmt.Errorf("x: %w", segment.ErrBadRow))
	m.Fetched("order", time.Second, fmt.Errorf("x: %w", segment.ErrReadOnly))
	m.Fetched("order", time.Second, fmt.Errorf("x: %w", segment.ErrRowMissing))
	m.Fetched("order", time.Second, errors.New("connection refused"))
	got := scrape(t, reg)
	for name, want := range map[string]float64{
		"leafd_ready": 1,
		"leafd_worker_info{cluster=c,layout=41+10+12,node=a:1,worker=7}": 1,
		"leafd_worker_state{state=starting}":                             0, "leafd_worker_state{state=active}": 1,
		"leafd_ceiling_distance_seconds": 6, "leafd_lease_distance_seconds": 60,
		"leafd_report_age_seconds{to=file}": 3, "leafd_reports_total{to=file}": 1, "leafd_report_failures_total{to=file}": 2,
		"leafd_report_age_seconds{to=zookeeper}": 6, "leafd_reports_total{to=zookeeper}": 4, "leafd_report_failures_total{to=zookeeper}": 5,
		"leafd_clock_steps_total{direction=ahead}": 7, "leafd_clock_steps_total{direction=back}": 8,
		"leafd_clock_check_age_seconds": 9, "leafd_clock_offset_threshold_seconds": 5,
		"leafd_clock_offset_seconds{peer=b:1}": 0.25, "leafd_clock_offset_seconds{peer=d:1}": -1,
		"leafd_clock_peers{answered=yes}": 3, "leafd_clock_peers{answered=no}": 1, "leafd_clock_offset_estimate_seconds": 0.2,
		"leafd_clock_verdict{verdict=agree}": 1, "leafd_clock_verdict{verdict=undecided}": 0, "leafd_clock_verdict{verdict=disagree}": 0,
		"leafd_generator_waits_total{reason=used_up}": 1, "leafd_generator_waits_total{reason=clock_behind}": 2,
		"leafd_generator_waits_total{reason=ceiling}": 3, "leafd_generator_refusals_total{reason=clock_backwards}": 4,
		"leafd_generator_refusals_total{reason=ceiling_reached}": 5, "leafd_generator_refusals_total{reason=time_exhausted}": 6,
		"leafd_generator_refusals_total{reason=stopped}": 7, "leafd_generator_refusals_total{reason=given_up}": 8,
		"leafd_zookeeper_session_state{state=disconnected}": 1, "leafd_zookeeper_session_state{state=connected}": 0,
		"leafd_zookeeper_connects_total": 3, "leafd_zookeeper_session_expiries_total": 2,
		"leafd_segment_guarded": 0, "leafd_segment_guard_behind": 1, "leafd_segment_unguarded_fetches_total": 7,
		"leafd_segment_guard_conflicts_total": 8, "leafd_segment_ranges_given_up_total": 9,
		"leafd_segment_tags": 10, "leafd_segment_tags_failing": 2, "leafd_segment_tags_empty": 1,
		"leafd_segment_ids_issued_total{tag=order}": 100, "leafd_segment_ids_issued_total{tag=_other}": 0,
		"leafd_segment_remaining_seconds{tag=order}": 90, "leafd_segment_remaining_seconds{tag=failing}": math.Inf(1),
		"leafd_segment_remaining_seconds{tag=empty}": 0,
		"leafd_segment_step{tag=order}":              1000, "leafd_segment_failed_attempts{tag=failing}": 4, "leafd_segment_failed_attempts{tag=order}": 0,
		"leafd_segment_fetch_duration_seconds":              6,
		"leafd_segment_fetch_failures_total{reason=locked}": 1, "leafd_segment_fetch_failures_total{reason=bad_row}": 1,
		"leafd_segment_fetch_failures_total{reason=read_only}": 1, "leafd_segment_fetch_failures_total{reason=other}": 1,
		"leafd_segment_fetch_failures_total{reason=no_row}": 1,
	} {
		require.Contains(t, got, name)
		require.InDelta(t, want, got[name], 1e-9, name)
	}
	require.NotContains(t, got, "leafd_clock_offset_seconds{peer=c:1}", "it told nothing")
	require.NotContains(t, got, "leafd_segment_remaining_seconds{tag=idle}", "it lacks nothing")
	require.NotContains(t, got, "leafd_segment_remaining_seconds{tag=never}")
	years := got["leafd_layout_remaining_seconds"] / (365.25 * 86400)
	require.InDelta(t, 53.6, years, 0.1, "41 bits of ms from November 2010 on")
}

// Of peers that are drawn again each time, only those with clocks that are off have a series.
func TestOffsetsOfADraw(t *testing.T) {
	f, m, reg := newFake(t)
	f.setAll(m)
	f.samples = []clock.Sample{{Address: "a:1", Offset: time.Second}, {Address: "b:1", Offset: 5 * time.Second}, {Address: "c:1", Offset: -time.Hour}}
	for peers, want := range map[int][]string{clock.Drawn: {"a:1", "b:1", "c:1"}, clock.Drawn + 1: {"b:1", "c:1"}} {
		f.record.Peers = make([]string, peers)
		var got []string
		for name := range scrape(t, reg) {
			if peer, is := strings.CutPrefix(name, "leafd_clock_offset_seconds{peer="); is {
				got = append(got, strings.TrimSuffix(peer, "}"))
			}
		}
		require.ElementsMatch(t, want, got, "%d peers", peers)
	}
}

// crowd makes f a daemon with very many tags and peers, including hostile ones.
func (f *fake) crowd(tags, peers int) {
	f.tags = []segment.Status{{Tag: "\xff", Failures: 1, Issued: 1}, {Tag: Rest, Failures: 1, Issued: 1}}
	for n := range tags {
		f.tags = append(f.tags, segment.Status{
			Tag: fmt.Sprintf("tag-%06d", n), Issued: int64(n), Rate: float64(n % 1000), Remaining: new(float64(n)), Failures: n % 3,
		})
	}
	f.samples = []clock.Sample{
		{Address: "\xff:1", Offset: time.Hour},
		{Address: strings.Repeat("x", maxAddress+1), Offset: time.Hour},
		{Address: "far:1", Offset: time.Hour},
		{Address: "behind:1", Offset: math.MinInt64},
	}
	for n := range peers {
		f.samples = append(f.samples, clock.Sample{Address: fmt.Sprintf("10.0.%d.%d:8080", n/256, n%256), Offset: time.Duration(n) * time.Millisecond})
	}
}

func TestBoundedWithACrowd(t *testing.T) {
	f, m, reg := newFake(t)
	f.setAll(m)
	f.crowd(100_000, 1000)
	got := scrape(t, reg)
	count := func(prefix string) (n int) {
		for name := range got {
			if strings.HasPrefix(name, prefix+"{") {
				n++
			}
		}
		return n
	}
	require.Equal(t, MaxIssued+1, count("leafd_segment_ids_issued_total"))
	require.Equal(t, MaxTags, count("leafd_segment_remaining_seconds"))
	require.Equal(t, MaxTags, count("leafd_segment_step"))
	require.Equal(t, MaxTags, count("leafd_segment_failed_attempts"))
	require.Equal(t, MaxPeers, count("leafd_clock_offset_seconds"))
	require.Less(t, len(got), 800)
	require.Contains(t, got, "leafd_clock_offset_seconds{peer=far:1}")
	require.Contains(t, got, "leafd_clock_offset_seconds{peer=behind:1}")
	require.Contains(t, got, "leafd_clock_offset_seconds{peer=10.0.3.231:8080}", "the farthest of the others")
	require.Contains(t, got, "leafd_segment_remaining_seconds{tag=tag-000001}", "fails, and lasts the shortest")
	require.NotContains(t, got, "leafd_segment_remaining_seconds{tag=tag-000000}", "lasts shorter, and lacks nothing")
}
