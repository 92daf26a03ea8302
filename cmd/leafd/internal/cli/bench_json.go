package cli

import (
	"time"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/internal/loadtest/unique"
)

// BenchJSON is what a load showed, for programs. Latencies are in microseconds;
// IDs are strings, because JavaScript's numbers end at 2^53.
type BenchJSON struct {
	URLs       []string `json:"urls"`
	Mode       string   `json:"mode"`
	Keys       []string `json:"keys"`
	Batch      int      `json:"batch"`
	Clients    int      `json:"clients"`
	Pipeline   int      `json:"pipeline"`
	Rate       float64  `json:"rate"` // 0: a closed loop
	Begun      string   `json:"begun"`
	WindowS    float64  `json:"window_s"`
	ElapsedS   float64  `json:"elapsed_s"`
	EndedEarly bool     `json:"ended_early"`

	jsonCounts
	RequestsPerSecond float64 `json:"requests_per_s"` // answered
	IDsPerSecond      float64 `json:"ids_per_s"`
	Due               int64   `json:"due"`
	NotSent           int64   `json:"not_sent"`

	Latency  jsonLatency   `json:"latency_us"`
	Service  *jsonLatency  `json:"service_us,omitempty"` // of an open loop
	Failures []jsonFailure `json:"failures"`
	Daemons  []jsonDaemon  `json:"daemons"`

	NotGrowing      int64       `json:"not_growing"`
	FirstNotGrowing []jsonFault `json:"first_not_growing,omitempty"`
	Wrong           int64       `json:"wrong_answers"`
	FirstWrong      []jsonFault `json:"first_wrong_answers,omitempty"`
	Unique          *jsonUnique `json:"unique,omitempty"` // with --check-unique
}

type jsonCounts struct {
	Sent        int64 `json:"requests"`
	Answered    int64 `json:"answered"`
	Failed      int64 `json:"failed"`
	Unfinished  int64 `json:"unfinished"`
	IDs         int64 `json:"ids"`
	Unknown     int64 `json:"unknown_ids"`
	Reconnected int64 `json:"reconnected"`
}

type jsonLatency struct {
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	P9999 float64 `json:"p99_99"`
	Max   float64 `json:"max"`
}

type jsonFailure struct {
	Status  int    `json:"status"` // 0: no answer
	Code    string `json:"code"`
	Count   int64  `json:"count"`
	Example string `json:"example"`
}

type jsonDaemon struct {
	URL string `json:"url"`
	jsonCounts
}

type jsonPlace struct {
	Client  int     `json:"client"`
	Request int64   `json:"request"`
	AtS     float64 `json:"at_s"`
}

type jsonFault struct {
	jsonPlace
	What string `json:"what"`
}

type jsonUnique struct {
	Checked bool            `json:"checked"` // false: it isn't known whether an ID came twice
	Sets    []jsonUniqueSet `json:"sets"`
}

type jsonUniqueSet struct {
	Key      string          `json:"key,omitempty"`
	IDs      int64           `json:"ids"`
	Repeated int64           `json:"repeated"`
	Surplus  int64           `json:"surplus"`
	First    []jsonDuplicate `json:"first,omitempty"`
}

type jsonDuplicate struct {
	ID     string      `json:"id"`
	Times  int64       `json:"times"`
	Places []jsonPlace `json:"places"`
}

func benchJSON(cfg loadtest.Config, r *loadtest.Result) BenchJSON {
	j := BenchJSON{
		URLs: cfg.URLs, Mode: string(cfg.Mode), Keys: cfg.Keys, Batch: cfg.Batch, Clients: cfg.Clients, Pipeline: cfg.Pipeline, Rate: cfg.Rate,
		Begun: r.Begun.UTC().Format(time.RFC3339Nano), WindowS: r.Window.Seconds(), ElapsedS: r.Elapsed.Seconds(), EndedEarly: r.EndedEarly,
		jsonCounts:        countsJSON(r.Counts),
		RequestsPerSecond: float64(r.Counts.Answered) / r.Elapsed.Seconds(), IDsPerSecond: float64(r.Counts.IDs) / r.Elapsed.Seconds(),
		Due: r.Due, NotSent: r.NotSent, Latency: latencyJSON(r.Latency), Failures: []jsonFailure{},
		NotGrowing: r.NotGrowing, FirstNotGrowing: faultsJSON(r.FirstNotGrowing), Wrong: r.Wrong, FirstWrong: faultsJSON(r.FirstWrong),
	}
	if cfg.Rate > 0 {
		service := latencyJSON(r.Service)
		j.Service = &service
	}
	for _, f := range r.Failures {
		j.Failures = append(j.Failures, jsonFailure(f))
	}
	for _, t := range r.Targets {
		j.Daemons = append(j.Daemons, jsonDaemon{URL: t.URL, jsonCounts: countsJSON(t.Counts)})
	}
	if cfg.Check != nil {
		j.Unique = &jsonUnique{Checked: r.Checked, Sets: []jsonUniqueSet{}}
		for _, set := range r.Unique {
			j.Unique.Sets = append(j.Unique.Sets, uniqueJSON(set))
		}
	}
	return j
}

func countsJSON(c loadtest.Counts) jsonCounts {
	return jsonCounts{
		Sent: c.Sent, Answered: c.Answered, Failed: c.Failed, Unfinished: c.Unfinished,
		IDs: c.IDs, Unknown: c.Unknown, Reconnected: c.Reconnected,
	}
}

func latencyJSON(l loadtest.Latency) jsonLatency {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return jsonLatency{
		Mean: us(l.Mean), P50: us(l.P50), P90: us(l.P90), P99: us(l.P99),
		P999: us(l.P999), P9999: us(l.P9999), Max: us(l.Max),
	}
}

func placeJSON(p unique.Place) jsonPlace {
	return jsonPlace{Client: p.Client, Request: p.Request, AtS: p.At.Seconds()}
}

func faultsJSON(faults []loadtest.Fault) []jsonFault {
	var list []jsonFault
	for _, f := range faults {
		list = append(list, jsonFault{jsonPlace: placeJSON(f.Place), What: f.What})
	}
	return list
}

func uniqueJSON(set loadtest.UniqueSet) jsonUniqueSet {
	s := jsonUniqueSet{Key: set.Key, IDs: set.IDs, Repeated: set.Repeated, Surplus: set.Surplus}
	for _, d := range set.First {
		s.First = append(s.First, jsonDuplicate{
			ID: Decimal(d.ID), Times: d.Times, Places: []jsonPlace{placeJSON(d.Places[0]), placeJSON(d.Places[1])},
		})
	}
	return s
}
