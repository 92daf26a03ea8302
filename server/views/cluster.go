package views

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
)

// The page of one daemon shows all live daemons of the cluster. It keeps:
//
//  1. A peer is asked by this daemon, at the address that it has in the live set, at most once in
//     clusterShare, however many browsers look at the page; none while none does. A request waits for no
//     peer: it gets the last answers.
//  2. A peer is not trusted. Of an answer SummaryBytes are read; what isn't a summary, or has a status
//     that no daemon has, is none; texts are shortened, and a number that can't be a rate is 0.
const (
	clusterShare   = 5 * time.Second
	clusterTimeout = 10 * time.Second // of asking all
	SummaryPath    = "/api/summary"
	SummaryBytes   = 8 << 10
	hourPoints     = 60 // one each minute
)

// The status of a daemon that shouldn't get requests, and of one that gave no answer.
const (
	NotReady = "not_ready"
	NoAnswer = "no_answer"
)

// Summary is the answer of GET /api/summary: a daemon in a few lines, for the page of another one.
type Summary struct {
	Address  string             `json:"address,omitempty"` // in the live set; in the cluster's list only, as self
	Self     bool               `json:"self,omitempty"`    // it is this daemon
	WorkerID *int64             `json:"worker_id,omitempty"`
	Node     string             `json:"node,omitempty"`
	Version  string             `json:"version,omitempty"`
	Uptime   reply.Milliseconds `json:"uptime_ms"`
	Status   string             `json:"status"` // as of GET /readyz, and code and message as there, else of the worst condition; no_answer of a daemon that gave none
	Code     string             `json:"code,omitempty"`
	Message  string             `json:"message,omitempty"`
	// Snowflake and Segment are IDs a second, of the last ten seconds.
	Snowflake float64 `json:"snowflake"`
	Segment   float64 `json:"segment"`
	// Hour is IDs a second of each minute of the last hour, the oldest first, as far as the process has run.
	Hour []float64 `json:"hour"`
}

// Cluster is the answer of GET /api/cluster.
type Cluster struct {
	AsOf    clock.Millis `json:"as_of,omitempty"` // ms; when the peers were asked; 0: not yet
	Stale   bool         `json:"stale"`           // that was long ago, or the live set could not be read since
	Daemons []Summary    `json:"daemons"`
	LeftOut int          `json:"left_out"` // live daemons beyond overviewPeers
}

// PeerAnswer is what a live peer has answered, or why it has not.
type PeerAnswer struct {
	Address  string
	Instance string
	Body     []byte
	Err      error
}

// summary answers GET /api/summary, also while the daemon starts.
func (s *Server) summary(ctx *fasthttp.RequestCtx) error {
	return s.common(ctx, reply.ContentJSON, "summary", func(v *Snapshot) ([]byte, error) { return reply.EncodeJSON(s.ownSummary(v)) })
}

func (s *Server) ownSummary(v *Snapshot) Summary {
	r := v.Ready
	sum := Summary{Node: v.Node, Version: v.Version, Uptime: v.Uptime, Status: r.Status, Code: r.Code, Message: r.Message}
	if i := slices.IndexFunc(r.Conditions, func(c Condition) bool { return !c.Event }); i >= 0 && sum.Code == "" {
		sum.Code, sum.Message = r.Conditions[i].Code, r.Conditions[i].Message
	}
	if v.Worker != nil {
		sum.WorkerID = &v.Worker.ID
	}
	sum.Snowflake, sum.Segment, sum.Hour = s.history.minutes()
	return sum
}

// minutes returns the rates of the last point, and those of each minute, both modes together.
func (h *history) minutes() (snowflake, segment float64, hour []float64) {
	const each = historyPoints / hourPoints
	h.mu.Lock()
	defer h.mu.Unlock()
	hour = []float64{}
	kept := min(h.n, historyPoints)
	if kept == 0 {
		return 0, 0, hour
	}
	at := func(i int) HistoryPoint { return h.ring[i%historyPoints] }
	for from := h.n - kept + kept%each; from < h.n; from += each {
		sum := 0.0
		for i := range each {
			sum += at(from+i).Snowflake + at(from+i).Segment
		}
		hour = append(hour, math.Round(sum/each*10)/10)
	}
	return at(h.n - 1).Snowflake, at(h.n - 1).Segment, hour
}

// heard has the last answers of the peers.
type heard struct {
	daemons []Summary
	leftOut int
}

// cluster answers GET /api/cluster.
func (s *Server) cluster(ctx *fasthttp.RequestCtx) error {
	return s.common(ctx, reply.ContentJSON, "cluster", func(v *Snapshot) ([]byte, error) { return reply.EncodeJSON(s.clusterView(v)) })
}

func (s *Server) clusterView(v *Snapshot) Cluster {
	self, b := s.ownSummary(v), v.backend
	self.Self = true
	if v.Worker != nil {
		self.Address = v.Worker.Address
	}
	c := Cluster{Daemons: []Summary{self}}
	if b == nil || b.Ask == nil {
		c.AsOf = v.Time
		return c
	}
	go s.others.get(s, "", func() (heard, error) { return s.askPeers(b) }) //nolint:errcheck // it is kept
	h := s.others.seen()
	c.AsOf, c.Stale, c.LeftOut, c.Daemons = h.asOf, s.others.stale(h), h.value.leftOut, append(c.Daemons, h.value.daemons...)
	return c
}

// askPeers asks all live peers.
func (s *Server) askPeers(b *Backend) (heard, error) {
	ctx, cancel := context.WithTimeout(s.cfg.Base, clusterTimeout)
	defer cancel()
	answers, leftOut, err := b.Ask(ctx, SummaryPath, SummaryBytes, overviewPeers)
	h := heard{leftOut: leftOut}
	for _, a := range answers {
		h.daemons = append(h.daemons, s.summaryOf(a))
	}
	return h, err
}

// summaryOf is SummaryOf; a peer that gave no answer is named by its entry.
func (s *Server) summaryOf(a PeerAnswer) Summary {
	sum, seen := SummaryOf(a), s.members.seen().value
	if i := slices.IndexFunc(seen, func(w WorkerInfo) bool { return w.Instance == a.Instance }); i >= 0 && sum.Status == NoAnswer {
		sum.WorkerID, sum.Node = &seen[i].ID, seen[i].Node
	}
	return sum
}

// SummaryOf reads a peer's answer to SummaryPath.
func SummaryOf(a PeerAnswer) (sum Summary) {
	err := a.Err
	if err == nil {
		err = json.Unmarshal(a.Body, &sum)
	}
	if err != nil || !slices.Contains([]string{"ready", "degraded", NotReady}, sum.Status) {
		sum = Summary{Status: NoAnswer, Message: "what answers there is no leafd"}
		if a.Err != nil {
			sum.Message = a.Err.Error()
		}
	}
	sum.Address, sum.Self = a.Address, false
	sum.Node, sum.Version, sum.Code, sum.Message = shorten(sum.Node), shorten(sum.Version), shorten(sum.Code), shorten(sum.Message)
	sum.Snowflake, sum.Segment, sum.Hour = rateOf(sum.Snowflake), rateOf(sum.Segment), append([]float64{}, sum.Hour[max(0, len(sum.Hour)-hourPoints):]...)
	for i, r := range sum.Hour {
		sum.Hour[i] = rateOf(r)
	}
	return sum
}

// rateOf returns r, or 0 where no daemon issues so many IDs a second.
func rateOf(r float64) float64 {
	if r >= 0 && r < 1e12 {
		return r
	}
	return 0
}
