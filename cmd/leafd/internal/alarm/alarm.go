// Package alarm has the one loop that compares the conditions of a daemon with what it last saw,
// and the events, which are over when they are told. What begins is a line of the log, and, where
// a person has to look at it, an alarm: counted in leafd_alarms_total{code}, and posted to a
// webhook where there is one.
package alarm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/condition"
)

const (
	// PostPause is how long the webhook gets no further alarm of a code after one.
	PostPause = 10 * time.Second
	// lookEvery is how often the conditions are compared.
	lookEvery = 500 * time.Millisecond
	// lookGrace is what the loop gets above that, on a machine under load.
	lookGrace = 5 * time.Second
	// overAfter is how long a condition has to be gone before its end is told: one that
	// comes and goes is told once.
	overAfter = 5 * time.Second
	// keptEvents is how many events are kept.
	keptEvents = 200
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
	// Log gets a line for each condition that begins or ends, and one for each alarm that isn't delivered.
	Log zerolog.Logger
	// Registerer gets the counters. Required.
	Registerer prometheus.Registerer
	// Clock tells the time of alarms. Required.
	Clock clock.Clock
	// Ask returns what is wrong now, as each part tells it. It must not block. Required.
	Ask func() []condition.Condition
	// Cause puts an error into words for every reader, or returns ""; nil: none has words.
	// It must not block.
	Cause func(error) string
	// Node and Version are told with each alarm.
	Node, Version string
}

// Alarms tells of conditions and events. Now and Tell may be called from the beginning, from any
// goroutine. It keeps:
//
//  1. A condition is over when no part tells it any more, regardless of the part that
//     raised it: the parts are asked, and nothing else remembers what they said.
//  2. Each condition that begins and each event is a line of the log, and counted
//     where it is an alarm. Neither waits for the webhook.
//  3. The webhook gets an alarm of a code at most once in PostPause, so that events
//     of 100,000 tags keep no other code from it.
//  4. What is queued for the webhook is bounded. What isn't delivered is counted.
//  5. However many ask, asking the parts takes a tenth of a processor: of 100,000 tags
//     that fail each is looked at. For nine times as long as it took, and lookEvery at
//     most, Now has the same answer.
type Alarms struct {
	cfg    Config                 // immutable
	raised *prometheus.CounterVec // immutable
	posted *prometheus.CounterVec // immutable
	client *http.Client           // immutable after New; tests change it
	grace  time.Duration          // immutable after New; tests shorten it
	queue  chan notice
	hook   atomic.Pointer[url.URL] // nil: none
	looks  clock.Heartbeat         // see Stuck
	lost   atomic.Pointer[error]   // why the last alarm was not delivered; nil: it was

	asked struct {
		sync.Mutex

		all   []condition.Condition // protected; what the parts said last
		until time.Duration         // protected; monotonic; when they are asked again
	}

	mu     sync.Mutex
	seen   map[key]*sight                   // mu protects; conditions, as they were seen last
	events []Event                          // mu protects; the last ones, the newest last
	quiet  map[condition.Code]time.Duration // mu protects; monotonic; the webhook gets none of the code before
	ended  bool                             // mu protects; Run delivers no more than what is queued
}

// key is what tells conditions apart: another cause is no other condition. One that makes the
// daemon not ready by and by is told again.
type key struct {
	code     condition.Code
	subject  string
	notReady bool
}

// sight is a condition as the loop sees it.
type sight struct {
	condition.Condition

	last time.Duration // monotonic; when a part told it last
	told bool
}

// Event is something that was over when it was told.
type Event struct {
	condition.Condition

	Time clock.Millis
}

// notice is an alarm as it is posted.
type notice struct {
	Code    condition.Code `json:"code"`
	Message string         `json:"message"`
	Node    string         `json:"node"`
	Time    string         `json:"time"` // RFC 3339, UTC, with milliseconds
	Version string         `json:"version"`
	Subject string         `json:"subject,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// New returns Alarms, with the counters of all codes at 0. ErrConfig.
func New(cfg Config) (*Alarms, error) {
	if cfg.Registerer == nil || cfg.Clock == nil || cfg.Ask == nil {
		return nil, fmt.Errorf("%w: Config needs Registerer, Clock and Ask", ErrConfig)
	}
	metrics := promauto.With(cfg.Registerer)
	a := &Alarms{
		cfg: cfg,
		raised: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_alarms_total",
			Help: "Alarms raised, by code.",
		}, []string{"code"}),
		posted: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_alarm_deliveries_total",
			Help: "Alarms delivered to the webhook, by result: ok, failed, or dropped.",
		}, []string{"result"}),
		client: newClient(),
		grace:  stopGrace,
		queue:  make(chan notice, queued),
		seen:   make(map[key]*sight),
		quiet:  make(map[condition.Code]time.Duration),
	}
	for _, row := range condition.Rows() {
		if row.Severity == condition.Alarm {
			a.raised.WithLabelValues(string(row.Code))
		}
	}
	for _, result := range []string{resultOK, resultFailed, resultDropped} {
		a.posted.WithLabelValues(result)
	}
	return a, nil
}

// Now returns what is wrong now, the worst first, and the events of severity Alarm that stand still.
func (a *Alarms) Now() []condition.Condition {
	all := a.lately()
	now := a.cfg.Clock.Mono()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range all {
		c := &all[i]
		c.Since = now
		if s := a.seen[key{c.Code, c.Subject, c.NotReady}]; s != nil {
			c.Since = s.Since
		}
		c.Cause = a.cause(*c)
	}
	for _, e := range slices.Backward(a.events) {
		lasts := func(c condition.Condition) bool { return c.Code == e.Code && c.Subject == e.Subject }
		if e.Severity == condition.Alarm && now-e.Since < condition.EventStands && !slices.ContainsFunc(all, lasts) {
			all = append(all, e.Condition)
		}
	}
	condition.Sort(all)
	return all
}

// lately returns what the parts say, or have said a moment ago.
func (a *Alarms) lately() []condition.Condition {
	a.asked.Lock()
	defer a.asked.Unlock()
	if began := a.cfg.Clock.Mono(); began >= a.asked.until {
		a.asked.all = a.ask()
		ended := a.cfg.Clock.Mono()
		a.asked.until = ended + min(9*(ended-began), lookEvery)
	}
	return slices.Clone(a.asked.all)
}

// ask asks the parts, of which the webhook is one.
func (a *Alarms) ask() []condition.Condition {
	all := a.cfg.Ask()
	if err := a.lost.Load(); err != nil && a.hook.Load() != nil {
		all = append(all, condition.ByCode(condition.AlarmsUndelivered, "", *err))
	}
	return all
}

func (a *Alarms) cause(c condition.Condition) string {
	if c.Err == nil || c.Private || a.cfg.Cause == nil {
		return ""
	}
	return a.cfg.Cause(c.Err)
}

// Watch compares until ctx is done.
func (a *Alarms) Watch(ctx context.Context) error {
	next := time.NewTicker(lookEvery)
	defer next.Stop()
	defer a.looks.Pause()
	for {
		a.looks.Expect(a.cfg.Clock, lookEvery+lookGrace)
		a.look()
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// Stuck returns nil while Watch comes round: a log that takes no line keeps it from that.
func (a *Alarms) Stuck() error {
	if late := a.looks.Overdue(a.cfg.Clock); late > 0 {
		return fmt.Errorf("the loop that compares conditions is %s late", late.Round(time.Millisecond))
	}
	return nil
}

// look compares what is wrong with what was seen last, and tells what has begun or ended.
func (a *Alarms) look() {
	all := a.ask()
	now := a.cfg.Clock.Mono()
	var begun, over []condition.Condition
	a.mu.Lock()
	for _, c := range all {
		k := key{c.Code, c.Subject, c.NotReady}
		s := a.seen[k]
		if s == nil {
			s = &sight{}
			s.Since = now
			a.seen[k] = s
		}
		c.Since, s.last = s.Since, now
		s.Condition = c
		if !s.told && c.Severity != condition.Note && now-s.Since >= c.After {
			s.told = true
			begun = append(begun, c)
		}
	}
	for k, s := range a.seen {
		if now-s.last < overAfter {
			continue
		}
		delete(a.seen, k)
		if s.told {
			over = append(over, s.Condition)
		}
	}
	a.mu.Unlock()
	condition.Sort(begun)
	for _, c := range begun {
		a.tell(c)
	}
	for _, c := range over {
		a.cfg.Log.Info().Str("over", string(c.Code)).Str("subject", c.Subject).Dur("lasted_ms", now-c.Since).Msg("over: " + c.Headline)
	}
}

// Tell tells of an event, now.
func (a *Alarms) Tell(c condition.Condition) {
	c.Since = a.cfg.Clock.Mono()
	c.Cause = a.cause(c)
	a.mu.Lock()
	a.events = append(a.events, Event{c, a.cfg.Clock.Read().Wall()})
	a.events = a.events[max(0, len(a.events)-keptEvents):]
	a.mu.Unlock()
	a.tell(c)
}

// Events returns the last events, the newest first.
func (a *Alarms) Events() []Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Clone(a.events)
	slices.Reverse(all)
	return all
}

// tell writes the line of c, counts it, and queues it for the webhook.
func (a *Alarms) tell(c condition.Condition) {
	n := notice{
		Code: c.Code, Message: clip(c.Headline), Node: a.cfg.Node, Time: a.cfg.Clock.Read().Wall().String(), Version: a.cfg.Version, Subject: clip(c.Subject),
	}
	if c.Err != nil {
		n.Error = clip(c.Err.Error())
	}
	line := a.cfg.Log.Warn().Str("condition", string(c.Code))
	if c.Severity == condition.Alarm {
		a.raised.WithLabelValues(string(c.Code)).Inc()
		line = a.cfg.Log.Error().Str("alarm", string(c.Code))
	}
	if n.Subject != "" {
		line.Str("subject", n.Subject)
	}
	if n.Error != "" {
		line.Str("error", n.Error)
	}
	line.Str("do", c.Action).Msg(n.Message)
	if c.Severity == condition.Alarm && !a.enqueue(n) {
		a.drop(n, "an alarm is not delivered: the queue is full, or leafd is stopping")
	}
}

// enqueue queues n for the webhook, where it is to be posted. It returns false where there is no
// room for it.
func (a *Alarms) enqueue(n notice) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.cfg.Clock.Mono()
	until, told := a.quiet[n.Code]
	if a.hook.Load() == nil || told && now < until {
		return true
	}
	a.quiet[n.Code] = now + PostPause
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

// clip returns the beginning of a text that is too long.
func clip(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
