package views

import (
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
)

// Bounds of the lists in GET /api/overview. The rest is counted, not listed.
const (
	overviewTags    = 100
	overviewWorkers = 1000
	overviewPeers   = 1000
	overviewEvents  = 20
)

// Overview is the answer of GET /api/overview: what the dashboard shows.
// docs/DASHBOARD.md describes it for other programs.
type Overview struct {
	Time     clock.Millis       `json:"time"`      // ms; this daemon's clock
	Uptime   reply.Milliseconds `json:"uptime_ms"` // of the process, on a clock that never steps
	Node     string             `json:"node,omitempty"`
	Version  string             `json:"version,omitempty"`
	Secure   bool               `json:"secure"` // the public listener speaks TLS
	Ready    Readiness          `json:"ready"`
	Worker   *WorkerInfo        `json:"worker,omitempty"` // nil while it has no worker ID
	Guards   *Guards            `json:"guards,omitempty"` // nil as Worker
	Clock    *OverviewClock     `json:"clock,omitempty"`  // nil for a daemon alone
	Workers  WorkersView        `json:"workers"`
	Segments *SegmentsView      `json:"segments,omitempty"` // nil where they are switched off
	Events   []OverviewEvent    `json:"events"`             // the newest first, overviewEvents at most
	// Issued counts the IDs put into responses by this process, by mode.
	Issued map[string]reply.Wide `json:"issued"`
	// Errors counts its error responses, by code, without zeros.
	Errors      map[string]uint64 `json:"errors"`
	Connections int               `json:"connections"`
}

// Guards tells how far this daemon is from having to stop issuing.
type Guards struct {
	Fenced bool `json:"fenced"`
	// Ceiling is the time below which IDs may be issued, ms; 0: none may.
	Ceiling clock.Millis `json:"ceiling"`
	// CeilingDistance is how far the ceiling is ahead of the clock; at 0 or less, IDs
	// wait for the next report or are refused.
	CeilingDistance reply.Milliseconds `json:"ceiling_distance_ms"`
	CeilingLead     reply.Milliseconds `json:"ceiling_lead_ms"` // the distance right after a report
	// ReportAge is how long ago the clock was last recorded in the local file.
	ReportAge      reply.Milliseconds `json:"report_age_ms"`
	ReportInterval reply.Milliseconds `json:"report_interval_ms"`
	// Registry is standalone, or the state of the session with ZooKeeper:
	// connecting, connected, disconnected, expired, auth_failed or closed.
	Registry       string `json:"registry"`
	RegistryServer string `json:"registry_server,omitempty"` // host:port in use, or tried last
	// RegistryFor is how long Registry has had this value.
	RegistryFor reply.Milliseconds `json:"registry_for_ms"`
	// RegistryFailing tells that the last report to the registry failed. IDs are still
	// issued without it, for RegistryLease.
	RegistryFailing bool                `json:"registry_failing"`
	RegistryAge     *reply.Milliseconds `json:"registry_age_ms,omitempty"` // since the last report that succeeded
	RegistryLease   *reply.Milliseconds `json:"registry_lease_ms,omitempty"`
}

// OverviewEvent is something that was over when it was told.
type OverviewEvent struct {
	Time    clock.Millis `json:"time"` // ms
	Code    string       `json:"code"`
	Subject string       `json:"subject,omitempty"`
	Message string       `json:"message"`
	Cause   string       `json:"cause,omitempty"`
}

// OverviewClock is what the peers say about this daemon's clock.
type OverviewClock struct {
	// Verdict is unchecked, alone (no peer to ask), silent (no peer answered), or a
	// clock.Vote. With disagree this daemon is not ready.
	Verdict   string              `json:"verdict"`
	Estimate  *reply.Milliseconds `json:"estimate_ms,omitempty"` // nil when no peer answered
	Threshold reply.Milliseconds  `json:"threshold_ms"`
	Asked     int                 `json:"asked"`
	Answered  int                 `json:"answered"`
	Checked   clock.Millis        `json:"checked,omitempty"` // ms; when they were asked; 0: not yet
	Peers     []PeerClock         `json:"peers"`
	LeftOut   int                 `json:"left_out"` // peers beyond overviewPeers
}

// PeerClock is the answer of one peer: Offset and RTT, or Error.
type PeerClock struct {
	Address string              `json:"address"`
	Node    string              `json:"node,omitempty"`
	Offset  *reply.Milliseconds `json:"offset_ms,omitempty"` // how far its clock is ahead of ours
	RTT     *reply.Milliseconds `json:"rtt_ms,omitempty"`
	Error   string              `json:"error,omitempty"`
}

// WorkersView has the workers as they were when the registry was last read. A daemon without a
// registry lists itself.
type WorkersView struct {
	AsOf    clock.Millis `json:"as_of,omitempty"` // ms; when that was; 0: never
	Stale   bool         `json:"stale"`           // that was long ago, or has failed since
	Error   string       `json:"error,omitempty"` // code of the last read's error
	Total   int          `json:"total"`
	Live    int          `json:"live"`
	LeftOut int          `json:"left_out"`
	List    []WorkerInfo `json:"list"`
}

// SegmentsView has the tags that need the most attention: failing ones, then the
// busiest.
type SegmentsView struct {
	Total   int              `json:"total"`
	Failing int              `json:"failing"` // of all
	Matched int              `json:"matched"` // with names that contain the part asked for
	LeftOut int              `json:"left_out"`
	Rate    float64          `json:"rate"` // IDs a second of all tags
	List    []segment.Status `json:"list"`
}

// overview answers GET /api/overview, also while the daemon starts. ?tag=part lists
// tags that have that part in their names, in either case.
func (s *Server) overview(ctx *fasthttp.RequestCtx) error {
	part := ctx.QueryArgs().Peek("tag")
	if len(part) == 0 {
		return s.common(ctx, reply.ContentJSON, "overview", func(v *Snapshot) ([]byte, error) { return overviewText(v, "") })
	}
	if err := ids.CheckKey(part); err != nil {
		return err
	}
	like := string(part)
	return s.list(ctx, reply.ContentJSON, func(v *Snapshot) ([]byte, error) { return overviewText(v, like) })
}

// overviewText returns v as an overview, with the tags that have that part in their names.
func overviewText(v *Snapshot, part string) ([]byte, error) {
	view := v.Overview
	if v.backend != nil && v.backend.Segments != nil {
		view.Segments = pickTags(v.backend.Segments.Used, part)
	}
	return reply.EncodeJSON(view)
}

func overviewClock(info ClockInfo) *OverviewClock {
	c := &OverviewClock{
		Verdict: string(clock.VoteOf(info.Samples, info.Threshold)), Threshold: reply.Milliseconds(info.Threshold), Asked: info.Verdict.Asked, Answered: info.Verdict.Answered,
		Checked: info.Checked, Peers: []PeerClock{}, LeftOut: max(0, len(info.Samples)-overviewPeers),
	}
	switch {
	case info.Checked == 0:
		c.Verdict = "unchecked"
	case c.Asked == 0:
		c.Verdict = "alone"
	case c.Answered == 0:
		c.Verdict = "silent"
	}
	if c.Answered > 0 {
		c.Estimate = new(reply.Milliseconds(info.Verdict.Offset))
	}
	for i := range min(len(info.Samples), overviewPeers) {
		c.Peers = append(c.Peers, PeerClockOf(info.Samples[i]))
	}
	return c
}

// PeerClockOf returns what a sample says.
func PeerClockOf(s clock.Sample) PeerClock {
	p := PeerClock{Address: s.Address, Node: s.Node}
	if s.Err != nil {
		p.Error = shorten(s.Err.Error())
	} else {
		p.Offset, p.RTT = new(reply.Milliseconds(s.Offset)), new(reply.Milliseconds(s.RTT))
	}
	return p
}
