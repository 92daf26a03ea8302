package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/soak/trend"
)

// verdict is one thing that the daemon has to keep.
type verdict struct {
	name string
	kept bool
	says string // the figures
}

// unsent is the share of the requests that may have gone unsent: those that were due in the
// load's last moment.
const unsent = 1e-4

// flat is a figure of the daemon that must stay where it is, and how much of a rise
// in the second half is none. (Half an hour at 50,000 requests a second are 90
// million: two megabytes are 0.02 bytes for each.)
type flat struct {
	name      string
	of        func(sample) float64
	tolerance trend.Tolerance
	unit      float64 // that it is printed in
	symbol    string
}

func flats() []flat {
	memory := trend.Tolerance{Share: 0.05, Least: 2e6}
	counted := trend.Tolerance{Share: 0.02, Least: 3}
	return []flat{
		{"resident memory flat", func(s sample) float64 { return s.rss }, memory, 1e6, " MB"},
		{"heap flat", func(s sample) float64 { return s.heap }, memory, 1e6, " MB"},
		{"goroutines flat", func(s sample) float64 { return s.goroutines }, counted, 1, ""},
		{"descriptors flat", func(s sample) float64 { return s.fds }, counted, 1, ""},
	}
}

// verdicts are all there are, in the order in which they are printed.
func (f *figures) verdicts(o options) []verdict {
	list := []verdict{f.latency(o), f.rateKept(), f.noErrors(), f.unique(), f.order()}
	for _, fl := range flats() {
		list = append(list, f.flat(o, fl))
	}
	return append(list, f.outage(), f.whole(o))
}

// missed is how many verdicts are.
func (f *figures) missed(o options) int {
	n := 0
	for _, v := range f.verdicts(o) {
		if !v.kept {
			n++
		}
	}
	return n
}

// together is the distribution of the latencies of several runs as one.
func together(results []*loadtest.Result) loadtest.Latency {
	all := loadtest.NewHistogram()
	for _, r := range results {
		if r.Latencies != nil { // of a Result that Run made
			all.Merge(r.Latencies)
		}
	}
	return loadtest.LatencyOf(all)
}

func (f *figures) latency(o options) verdict {
	all := together(f.results)
	kept, says := all.P999 <= o.p999, "at most "+short(o.p999)
	if o.bare != "" {
		kept, says = f.turns.judge(o.p999)
	}
	says += fmt.Sprintf("; in the whole load p50 %s, p99 %s, p99.9 %s, p99.99 %s, max %s", short(all.P50), short(all.P99), short(all.P999), short(all.P9999), short(all.Max))
	if f.hostTook != "" {
		says += "; " + f.hostTook
	}
	return verdict{"p99.9 from the intended start", all.Count > 0 && kept, says}
}

func (f *figures) rateKept() verdict {
	var due, notSent int64
	for _, r := range f.results {
		due += r.Due
		notSent += r.NotSent
	}
	return verdict{
		"rate kept", due > 0 && float64(notSent) <= unsent*float64(due),
		fmt.Sprintf("%d of %d requests were not sent, at most %g %%", notSent, due, unsent*100),
	}
}

// noErrors: the tags hold enough for the outage, so that it explains none.
func (f *figures) noErrors() verdict {
	v := verdict{"no request failed", f.errors == 0, fmt.Sprintf("%d failed", f.errors)}
	for _, x := range f.failures {
		v.says += fmt.Sprintf("; %d times %d %s, as %q", x.Count, x.Status, x.Code, x.Example)
	}
	return v
}

func (f *figures) unique() verdict {
	var ids, surplus int64
	var first []string
	for _, set := range f.sets {
		ids += set.IDs
		surplus += set.Surplus
		for _, d := range set.First {
			first = append(first, fmt.Sprintf("%s%d came %d times: %s, %s", tagOf(set.name), d.ID, d.Times, d.Places[0], d.Places[1]))
		}
	}
	v := verdict{"no ID twice", len(f.sets) > 0 && ids > 0 && surplus == 0, fmt.Sprintf("%d compared, %d too many", ids, surplus)}
	if len(first) > 0 {
		v.says += "; " + strings.Join(first, "; ")
	}
	return v
}

func tagOf(set string) string {
	if set == snowflakes {
		return ""
	}
	return set + " "
}

func (f *figures) order() verdict {
	v := verdict{name: "IDs grow, and are those asked for", kept: true}
	var fell, wrong int64
	for _, r := range f.results {
		fell += r.NotGrowing
		wrong += r.Wrong
	}
	v.kept = fell == 0 && wrong == 0
	v.says = fmt.Sprintf("%d did not grow, %d wrong answers", fell, wrong)
	return v
}

func (f *figures) flat(o options, fl flat) verdict {
	t := trend.Judge(secondHalf(f.samples, o.duration, fl.of), fl.tolerance)
	if !t.Judged() {
		return verdict{fl.name, false, fmt.Sprintf("%d samples of the second half, %d are needed", t.N, trend.Least)}
	}
	u, s := fl.unit, fl.symbol
	return verdict{fl.name, t.Flat, fmt.Sprintf(
		"median %.1f%s; second half: rise %+.2f%s, step %+.2f%s, allowed %.2f%s; noise %.2f%s; %d samples",
		t.Median/u, s, t.Rise/u, s, t.Step/u, s, t.Allowed/u, s, t.Noise/u, s, t.N)}
}

// outage: the database was away, the daemon noticed, and fetched again afterwards.
// A soak in which the daemon felt no outage has shown nothing of it.
func (f *figures) outage() verdict {
	how := "stopped"
	if f.plan.kill {
		how = "killed"
	}
	v := verdict{name: "ranges fetched through the restart"}
	if len(f.samples) == 0 || f.upAt == 0 {
		v.says = "the database was not restarted"
		return v
	}
	last := f.samples[len(f.samples)-1]
	failed := last.failed - f.atDown.failed
	// From the first sample after the restart: those before have failed attempts.
	before := last
	for _, s := range f.samples {
		if s.at >= f.upAt {
			before = s
			break
		}
	}
	after := (last.fetches - last.failed) - (f.atDown.fetches - f.atDown.failed)
	v.kept = last.failing == 0 && after > 0 && failed > 0
	v.says = fmt.Sprintf("database %s at %s, back at %s; ranges: %.0f before, %.0f since; %.0f attempts failed, %.0f tags failing just after the restart, %.0f in the end",
		how, short(f.downAt), short(f.upAt), f.atDown.fetches-f.atDown.failed, after, failed, before.failing, last.failing)
	return v
}

// whole: the load ran its time, and the daemon to the end.
func (f *figures) whole(o options) verdict {
	var panics float64
	if n := len(f.samples); n > 0 {
		panics = f.samples[n-1].panics
	}
	v := verdict{name: "ran its time, without a panic", kept: panics == 0 && len(f.results) > 0}
	window := time.Duration(0)
	for _, r := range f.results {
		window = max(window, r.Window)
		v.kept = v.kept && r.Window >= o.duration
	}
	v.says = fmt.Sprintf("%s, %.0f panics; the daemon stopped cleanly", window.Round(time.Millisecond), panics)
	return v
}
