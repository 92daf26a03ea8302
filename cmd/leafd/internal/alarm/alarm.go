// Package alarm is the one place that raises alarms: something that a person has
// to look at. Each is a log line at level error with alarm=<code>, counts in
// leafd_alarms_total{code}, and is posted to a webhook where there is one.
package alarm

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/leafd/leafd/clock"
)

const (
	// PostPause is how long the webhook gets no further alarm of a code after one.
	PostPause = 10 * time.Second
	// queued is how many alarms wait for a webhook that is busy.
	queued = 64
	// stopGrace is what Run has at its end to deliver what is queued.
	stopGrace = 2 * time.Second
	// longest is how much of a text goes into an alarm, in bytes.
	longest = 4 << 10
)

// ErrConfig is returned for a webhook that can't be used.
var ErrConfig = errors.New("bad configuration")

// Config is what Alarms need.
type Config struct {
	// Log gets a line for each alarm, and one for each that isn't delivered.
	Log zerolog.Logger
	// Registerer gets the counters. Required.
	Registerer prometheus.Registerer
	// Clock tells the time of alarms. Required.
	Clock clock.Clock
	// Webhook is an http or https URL that alarms are posted to; it is a
	// secret. Empty: none.
	Webhook string
	// Cause puts an error into words that Recent may show to every reader, or returns "";
	// nil: errors are not shown. It must not block.
	Cause func(error) string
	// Node and Version are told with each alarm.
	Node, Version string
}

// Alarms raises alarms. Raise may be called from the beginning, from any
// goroutine. It keeps:
//
//	Raise doesn't wait for the webhook.
//	alarm.R2  Every call of Raise is counted, and is a log line.
//	alarm.R3  The webhook gets an alarm of a code at most once in PostPause, so that a
//	    database that fails for 100,000 tags keeps no other code from it.
//	alarm.R4  What is queued for the webhook is bounded. What isn't delivered is counted.
type Alarms struct {
	cfg    Config                 // immutable
	raised *prometheus.CounterVec // immutable
	posted *prometheus.CounterVec // immutable
	client *http.Client           // immutable after New; tests change it
	grace  time.Duration          // immutable after New; tests shorten it
	queue  chan notice
	hook   atomic.Pointer[url.URL] // nil: none

	mu    sync.Mutex
	codes map[Code]*state // mu protects
	ended bool            // mu protects; Run delivers no more than what is queued
}

// state is what was told of one code.
type state struct {
	occurrence

	quietUntil time.Duration // monotonic; the webhook gets none before
}

// notice is an alarm as it is posted.
type notice struct {
	Code    Code           `json:"code"`
	Message string         `json:"message"`
	Node    string         `json:"node"`
	Time    string         `json:"time"` // RFC 3339, UTC, with milliseconds
	Version string         `json:"version"`
	Fields  map[string]any `json:"fields"`
}

// New returns Alarms, with the counters of all Codes at 0. ErrConfig.
func New(cfg Config) (*Alarms, error) {
	if cfg.Registerer == nil || cfg.Clock == nil {
		return nil, fmt.Errorf("%w: Config needs Registerer and Clock", ErrConfig)
	}
	metrics := promauto.With(cfg.Registerer)
	a := &Alarms{
		cfg: cfg,
		raised: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_alarms_total",
			Help: "Alarms raised, by code; docs/ALARMS.md tells what to do about each.",
		}, []string{"code"}),
		posted: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_alarm_deliveries_total",
			Help: "Alarms delivered to the webhook, by result: ok, failed, or dropped (queue full, or leafd was stopping).",
		}, []string{"result"}),
		client: newClient(),
		grace:  stopGrace,
		queue:  make(chan notice, queued),
		codes:  make(map[Code]*state),
	}
	for _, info := range Codes() {
		a.raised.WithLabelValues(string(info.Code))
	}
	for _, result := range []string{resultOK, resultFailed, resultDropped} {
		a.posted.WithLabelValues(result)
	}
	take, err := a.PrepareWebhook(cfg.Webhook)
	if err != nil {
		return nil, err
	}
	take()
	return a, nil
}

// Raise raises an alarm. msg says what happened, in few words and the same each
// time; what differs is in fields.
func (a *Alarms) Raise(code Code, msg string, fields ...Field) {
	n := notice{
		Code: code, Message: clip(msg), Node: a.cfg.Node, Time: a.cfg.Clock.Read().Wall().String(), Version: a.cfg.Version,
		Fields: make(map[string]any, len(fields)),
	}
	for _, f := range fields {
		if f.Value != nil {
			n.Fields[f.Key] = settle(f.Value)
		}
	}
	a.raised.WithLabelValues(string(code)).Inc()
	kept := a.keep(n, a.causeIn(fields))
	// Outside the lock: no other call waits when standard error is a pipe that is full.
	a.cfg.Log.Error().Str("alarm", string(code)).Fields(n.Fields).Msg(n.Message)
	if !kept {
		a.drop(n, "an alarm is not delivered: the queue is full, or leafd is stopping")
	}
}

// keep remembers n for Recent and queues it for the webhook, where it is to be posted.
// It returns false where it has no room for it.
func (a *Alarms) keep(n notice, cause string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Clock.Mono()
	s := a.codes[n.Code]
	if s == nil {
		s = &state{}
		a.codes[n.Code] = s
	}
	s.happens(n, cause, now)
	if a.hook.Load() == nil || now < s.quietUntil { // alarm.R3
		return true
	}
	s.quietUntil = now + PostPause
	if a.ended {
		return false
	}
	select {
	case a.queue <- n:
		return true
	default:
		return false
	}
}

// Field is something that differs from alarm to alarm.
type Field struct {
	Key     string
	Value   any // nil is left out
	private bool
}

// F returns a Field: whole numbers and truth values as such, all else as text.
func F(key string, value any) Field { return Field{Key: key, Value: value} }

// Err returns the Field of an error; nil is left out.
func Err(err error) Field { return Field{Key: "error", Value: err} }

// Private is Err of an error that Recent doesn't show, in whatever words.
func Private(err error) Field { return Field{Key: "error", Value: err, private: true} }

// settle makes the value one that doesn't change any more: it is posted later,
// by another goroutine. Integers beyond 2^53, where JavaScript's numbers end, are text.
func settle(value any) any {
	const end = 1 << 53
	switch v := value.(type) {
	case bool:
		return v
	case int:
		return settle(int64(v))
	case int64:
		if v <= end && v >= -end {
			return v
		}
		return strconv.FormatInt(v, 10)
	default:
		return clip(fmt.Sprint(v))
	}
}

// clip returns the beginning of a text that is too long.
func clip(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
