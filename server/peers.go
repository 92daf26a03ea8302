package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/clock"
)

// Milliseconds is a duration that JSON shows in milliseconds, to the microsecond:
// 0.412.
type Milliseconds time.Duration

// MarshalJSON implements json.Marshaler.
func (m Milliseconds) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (m *Milliseconds) UnmarshalJSON(b []byte) error {
	ms, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("%s is not a number of milliseconds", b)
	}
	*m = Milliseconds(math.Round(ms*1e3)) * Milliseconds(time.Microsecond)
	return nil
}

func (m Milliseconds) append(b []byte) []byte {
	return strconv.AppendFloat(b, time.Duration(m).Round(time.Microsecond).Seconds()*1e3, 'f', 3, 64)
}

// ClockInfo is what the peers said about this daemon's clock when they were last asked.
// In the zero value they were not asked yet.
type ClockInfo struct {
	// Checked is when they were asked, ms; 0: not yet.
	Checked clock.Millis
	// Verdict sums up their answers.
	Verdict clock.Verdict
	// Threshold is how far apart the clocks may be.
	Threshold time.Duration
	// Samples has each answer. The text of an Err is shown to clients.
	Samples []clock.Sample
}

// clock answers GET /api/clock, also while the daemon starts: peers compare clocks before
// they have an identity.
//
//	{"node":"10.0.0.5:8080","owner":"…","worker_id":7,"ceiling":1700000006000,
//	 "cluster":"…","since":1699990000000,
//	 "estimate_ms":0.412,"checked":1700000000000,
//	 "peers":[{"address":"10.0.0.6:8080","node":"…","offset_ms":0.412,"rtt_ms":0.300},
//	          {"address":"10.0.0.7:8080","error":"…"}],
//	 "timestamp":1700000003000}
//
// What isn't known is left out. ?peers=no leaves out estimate_ms, checked and peers too.
// Daemons use it to ask each other: a thousand of them would otherwise send a thousand
// lists of a thousand.
func (s *Server) clock(ctx *fasthttp.RequestCtx) error {
	node, b := s.cfg.Node, s.backend.Load()
	var worker []byte
	if b != nil && b.Worker != nil {
		w := b.Worker()
		if w.Node != "" {
			node = w.Node
		}
		worker = strconv.AppendInt(append(worker, `"worker_id":`...), w.ID, 10)
		worker = strconv.AppendInt(append(worker, `,"ceiling":`...), int64(w.Ceiling), 10)
		worker = appendMember(append(worker, ','), "cluster", w.Cluster)
		if w.Since != 0 {
			worker = strconv.AppendInt(append(worker, `"since":`...), int64(w.Since), 10)
			worker = append(worker, ',')
		}
	}
	body := appendMember([]byte{'{'}, "node", node)
	if owner := s.owner.Load(); owner != nil {
		body = appendMember(body, "owner", *owner)
	}
	body = append(body, worker...)
	if b != nil && b.Clock != nil && string(ctx.QueryArgs().Peek("peers")) != "no" {
		body = appendPeers(body, b.Clock())
	}
	body = append(body, `"timestamp":`...)
	// The time is read last: time spent after it would be an error of our offset.
	wallNS, _ := s.cfg.Clock.Wall()
	body = strconv.AppendInt(body, wallNS/int64(time.Millisecond), 10)
	return s.answer(ctx, contentJSON, append(body, '}', '\n'))
}

// appendPeers appends what the peers said, and a comma.
func appendPeers(body []byte, info ClockInfo) []byte {
	if info.Verdict.Answered > 0 {
		body = Milliseconds(info.Verdict.Offset).append(append(body, `"estimate_ms":`...))
		body = append(body, ',')
	}
	if info.Checked != 0 {
		body = strconv.AppendInt(append(body, `"checked":`...), int64(info.Checked), 10)
		body = append(body, ',')
	}
	body = append(body, `"peers":[`...)
	for i := range min(len(info.Samples), overviewPeers) {
		sample := &info.Samples[i]
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, `{"address":`...), quoteJSON(sample.Address)...)
		body = append(body, ',')
		body = appendMember(body, "node", sample.Node)
		if sample.Err != nil {
			body = append(append(body, `"error":`...), quoteJSON(shorten(sample.Err.Error()))...)
		} else {
			body = Milliseconds(sample.Offset).append(append(body, `"offset_ms":`...))
			body = Milliseconds(sample.RTT).append(append(body, `,"rtt_ms":`...))
		}
		body = append(body, '}')
	}
	return append(body, ']', ',')
}

// appendMember appends a member of an object and a comma; nothing for an empty
// value.
func appendMember(body []byte, name, value string) []byte {
	if value == "" {
		return body
	}
	body = append(append(append(body, '"'), name...), '"', ':')
	return append(append(body, quoteJSON(value)...), ',')
}

// shorten keeps the beginning of a text: a peer's error is one line of a list.
func shorten(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
