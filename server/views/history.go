package views

import (
	"math"
	"sync"
	"time"

	"github.com/leafd/leafd/server/reply"

	"github.com/valyala/fasthttp"
)

const (
	// HistoryInterval is how often a point is taken, and historyPoints how many are kept: an
	// hour of them.
	HistoryInterval = 10 * time.Second
	historyPoints   = 360
)

// history is the last hour of this process, so that a chart has it when it is opened. It
// keeps:
//
//  1. Its memory is fixed. No request counts for it: a point is what the counters
//     of /metrics say, taken each HistoryInterval while the server serves.
//  2. Its times are the process's age, which no step of the clock changes.
type history struct {
	mu   sync.Mutex
	ring [historyPoints]HistoryPoint // mu protects
	n    int                         // mu protects; points ever taken
	at   time.Duration               // mu protects; of the last point
	last [3]float64                  // mu protects; the counters then
}

// History is the answer of GET /api/history.
type History struct {
	Interval reply.Milliseconds `json:"interval_ms"`
	Points   []HistoryPoint     `json:"points"` // the oldest first
}

// HistoryPoint has rates per second since the point before, or the start of the process.
type HistoryPoint struct {
	Uptime    reply.Milliseconds `json:"uptime_ms"` // of the process, as in the overview
	Snowflake float64            `json:"snowflake"` // IDs
	Segment   float64            `json:"segment"`   // IDs
	Errors    float64            `json:"errors"`    // error answers
}

// add adds the point of a process of the age at, which has counted now.
func (h *history) add(at time.Duration, now [3]float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seconds := (at - h.at).Seconds()
	if seconds <= 0 {
		return
	}
	rate := func(i int) float64 { return math.Round((now[i]-h.last[i])/seconds*10) / 10 }
	h.ring[h.n%historyPoints] = HistoryPoint{reply.Milliseconds(at), rate(0), rate(1), rate(2)}
	h.n++
	h.at, h.last = at, now
}

// text returns the encoded history.
func (h *history) text() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := History{Interval: reply.Milliseconds(HistoryInterval), Points: []HistoryPoint{}}
	for i := max(0, h.n-historyPoints); i < h.n; i++ {
		all.Points = append(all.Points, h.ring[i%historyPoints])
	}
	return reply.EncodeJSON(all)
}

// answerHistory answers GET /api/history.
func (s *Server) answerHistory(ctx *fasthttp.RequestCtx) error {
	return s.common(ctx, reply.ContentJSON, "history", func(*Snapshot) ([]byte, error) { return s.history.text() })
}

// TakeHistory adds a point to the history: the server calls it each HistoryInterval.
func (s *Server) TakeHistory() {
	snowflake, segment := s.ids.Issued()
	counted := [3]float64{float64(snowflake), float64(segment)}
	for _, n := range s.Counts() {
		counted[2] += float64(n)
	}
	s.history.add(s.cfg.Clock.Mono()-s.born, counted)
}
