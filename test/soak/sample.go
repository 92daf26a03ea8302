package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/leafd/leafd/test/soak/trend"
)

// sample is the state of the daemon at a moment of the load.
type sample struct {
	at         time.Duration
	rss        float64 // bytes resident
	heap       float64 // bytes in use
	goroutines float64
	fds        float64
	cpu        float64 // seconds used
	pauses     float64 // of the garbage collector
	paused     float64 // seconds in all of them
	longest    float64 // seconds of the longest of the last ones
	fetches    float64 // attempts to fetch a range
	failed     float64 // of them
	failing    float64 // tags that failed in their last fetch
	panics     float64
	stolen     float64 // seconds that the host took of the CPUs since the load began
	look       look
}

// scrape takes a sample from the daemon's own metrics.
func (d *daemon) scrape(ctx context.Context, at time.Duration) (_ sample, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+"/metrics", nil)
	if err != nil {
		return sample{}, err
	}
	answer, err := d.http.Do(request)
	if err != nil {
		return sample{}, fmt.Errorf("the daemon's metrics: %w", err)
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return sample{}, fmt.Errorf("the daemon's metrics: %s", answer.Status)
	}
	s, err := parseSample(answer.Body)
	s.at = at
	return s, err
}

// parseSample reads a page of metrics; one that is missing is an error.
func parseSample(page io.Reader) (sample, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return sample{}, fmt.Errorf("the daemon's metrics: %w", err)
	}
	var s sample
	for name, to := range map[string]*float64{
		"process_resident_memory_bytes":        &s.rss,
		"go_memstats_heap_inuse_bytes":         &s.heap,
		"go_goroutines":                        &s.goroutines,
		"process_open_fds":                     &s.fds,
		"process_cpu_seconds_total":            &s.cpu,
		"leafd_segment_fetch_failures_total":   &s.failed,
		"leafd_segment_tags_failing":           &s.failing,
		"leafd_http_panics_total":              &s.panics,
		"leafd_segment_fetch_duration_seconds": &s.fetches,
		"go_gc_duration_seconds":               &s.pauses,
	} {
		family := families[name]
		if family == nil {
			return sample{}, fmt.Errorf("the daemon's metrics have no %s", name)
		}
		for _, m := range family.GetMetric() {
			*to += m.GetGauge().GetValue() + m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
		}
	}
	s.gc(families["go_gc_duration_seconds"])
	return s, nil
}

func (s *sample) gc(family *dto.MetricFamily) {
	for _, m := range family.GetMetric() {
		s.paused += m.GetSummary().GetSampleSum()
		for _, q := range m.GetSummary().GetQuantile() {
			if q.GetQuantile() == 1 {
				s.longest = q.GetValue()
			}
		}
	}
}

// secondHalf is a series of the samples from the middle of the load on.
func secondHalf(samples []sample, duration time.Duration, of func(sample) float64) []trend.Point {
	var points []trend.Point
	for _, s := range samples {
		if s.at >= duration/2 {
			points = append(points, trend.Point{At: s.at, Value: of(s)})
		}
	}
	return points
}

// writeSamples writes a line for each sample.
func writeSamples(w io.Writer, samples []sample) error {
	if _, err := fmt.Fprintln(w, "seconds\trss_bytes\theap_inuse_bytes\tgoroutines\tfds\tcpu_seconds\tgc_pauses\tgc_paused_seconds\tfetches\tfetches_failed\ttags_failing\trequests_per_s\trequests_failed\tworst_p999_us\tslowest_us\tstolen_seconds"); err != nil {
		return err
	}
	for _, s := range samples {
		_, err := fmt.Fprintf(w, "%.3f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.0f\t%.6f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%d\t%.2f\n",
			s.at.Seconds(), s.rss, s.heap, s.goroutines, s.fds, s.cpu, s.pauses, s.paused, s.fetches, s.failed, s.failing,
			s.look.perSecond, s.look.failed, s.look.worst.Microseconds(), s.look.slowest.Microseconds(), s.stolen)
		if err != nil {
			return err
		}
	}
	return nil
}
