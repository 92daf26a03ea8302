// Package alarm has the one loop that compares the conditions of a daemon with what it last saw,
// and the events, which are over when they are told. What begins is a line of the log, and, where
// a person has to look at it, an alarm: counted in leafd_alarms_total{code}, and posted to a
// webhook where there is one.
package alarm

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/server/views"
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
	// mostUnderWay is how many alarms are on their way to the webhook at once.
	mostUnderWay = 32
	// stopGrace is what those have at the end of Run.
	stopGrace = 2 * time.Second
	// longest is how much of a text goes into an alarm, in bytes.
	longest = 4 << 10
)

// Config is what Alarms need.
type Config struct {
	// Log gets a line for each condition that begins or ends, and one for each alarm that isn't delivered.
	Log zerolog.Logger
	// Registerer gets the counters.
	Registerer prometheus.Registerer
	// Clock tells the time of alarms.
	Clock clock.Clock
	// Ask returns what is wrong now, as each part tells it. It must not block.
	Ask func() []condition.Condition
	// Node and Version are told with each alarm.
	Node, Version string
}

// Alarms logs and posts conditions and events. Now and Tell may be called from the beginning, from
// any goroutine. It keeps:
//
//  1. A condition is over when no part tells it any more, regardless of the part that
//     raised it: the parts are asked, and nothing else remembers what they said.
//  2. Each condition that begins and each event is a line of the log, and counted
//     where it is an alarm. Neither waits for the webhook.
//  3. The webhook gets an alarm of a code at most once in PostPause while it stands, so that events
//     of 100,000 tags keep no other code from it; and its end once none of the code stands any
//     more. A receiver so knows a code on a node as one thing, in order. Run's end ends no
//     alarm: a daemon may stop for what it has told.
//  4. What is on its way to the webhook is bounded. What isn't delivered is counted.
//  5. However many ask, asking the parts takes a tenth of a processor: of 100,000 tags
//     that fail each is looked at. For nine times as long as it took, and lookEvery at
//     most, all callers have the same answer.
type Alarms struct {
	cfg     Config                  // immutable
	raised  *prometheus.CounterVec  // immutable
	results *prometheus.CounterVec  // immutable
	client  *http.Client            // immutable after New; tests change it
	grace   time.Duration           // immutable after New; tests shorten it
	hook    atomic.Pointer[url.URL] // nil: none
	looks   clock.Heartbeat         // see Stuck
	lost    atomic.Pointer[error]   // why the last alarm was not delivered; nil: it was

	underWay     errgroup.Group  // alarms on their way
	life, work   context.Context // no alarm is tried again, or at all, once they end
	end, abandon context.CancelFunc

	asking sync.Mutex
	all    []condition.Condition // asking protects; what the parts said last
	last   time.Duration         // asking protects; monotonic; when they said it
	until  time.Duration         // asking protects; monotonic; when they are asked again
	seen   map[key]*sight        // asking protects; conditions, as they were seen last

	mu     sync.Mutex
	events []event                          // mu protects; the last ones, the newest last
	firing map[condition.Code]*posted       // mu protects; the codes that the webhook has got, and not their end
	posts  map[condition.Code]chan struct{} // mu protects; closed when the last one of a code is delivered or given up
}

// key is what tells conditions apart: another cause is no other condition. One that makes the
// daemon not ready later is told again.
type key struct {
	code     condition.Code
	headline string // rows of one code are told each
	subject  string
	stops    condition.Kinds
}

func keyOf(c condition.Condition) key { return key{c.Code, c.Headline, c.Subject, c.Stops} }

// sight is a condition as the loop sees it.
type sight struct {
	condition.Condition

	last time.Duration // monotonic; when a part told it last
	told bool
}

// event is something that was over when it was told.
type event struct {
	condition.Condition

	at clock.Millis
}

// recent reports whether an event stands still.
func (a *Alarms) recent(e event) bool { return a.cfg.Clock.Mono()-e.Since < condition.EventStands }

// notice is an alarm as it is posted.
type notice struct {
	Code    condition.Code `json:"code"`
	Status  string         `json:"status"` // firing or resolved
	Message string         `json:"message"`
	Node    string         `json:"node"`
	Time    string         `json:"time"` // RFC 3339, UTC, with milliseconds
	Version string         `json:"version"`
	Subject string         `json:"subject,omitempty"`
	Error   string         `json:"error,omitempty"`
}

// New returns Alarms, with the counters of all codes at 0.
func New(cfg Config) *Alarms {
	metrics := promauto.With(cfg.Registerer)
	a := &Alarms{
		cfg: cfg,
		raised: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_alarms_total",
			Help: "Alarms raised, by code.",
		}, []string{"code"}),
		results: metrics.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_alarm_deliveries_total",
			Help: "Alarms delivered to the webhook, by result: ok, failed, or dropped.",
		}, []string{"result"}),
		client: newClient(),
		grace:  stopGrace,
		seen:   make(map[key]*sight),
		firing: make(map[condition.Code]*posted),
		posts:  make(map[condition.Code]chan struct{}),
	}
	a.underWay.SetLimit(mostUnderWay)
	a.work, a.abandon = context.WithCancel(context.Background()) //nolint:gosec // Run calls it
	a.life, a.end = context.WithCancel(a.work)
	for _, row := range condition.Rows() {
		if row.Severity == condition.Alarm {
			a.raised.WithLabelValues(string(row.Code))
		}
	}
	for _, result := range []string{"ok", "failed", "dropped"} {
		a.results.WithLabelValues(result)
	}
	return a
}

// Now returns what is wrong now, the worst first, and the events of severity Alarm that stand still.
func (a *Alarms) Now() []condition.Condition {
	all := a.ask()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range slices.Backward(a.events) {
		lasts := func(c condition.Condition) bool { return c.Code == e.Code && c.Subject == e.Subject }
		if e.Severity == condition.Alarm && a.recent(e) && !slices.ContainsFunc(all, lasts) {
			all = append(all, e.Condition)
		}
	}
	condition.Sort(all)
	return all
}

// ask returns what the parts say, or have said a moment ago.
func (a *Alarms) ask() []condition.Condition {
	a.asking.Lock()
	defer a.asking.Unlock()
	if began := a.cfg.Clock.Mono(); began >= a.until {
		a.all = a.cfg.Ask()
		a.last = a.cfg.Clock.Mono()
		a.until = a.last + min(9*(a.last-began), lookEvery)
		for i := range a.all {
			c := &a.all[i]
			s := a.seen[keyOf(*c)]
			if s == nil {
				s = &sight{}
				s.Since = a.last
				a.seen[keyOf(*c)] = s
			}
			c.Since = s.Since
			s.Condition, s.last = *c, a.last
		}
	}
	return slices.Clone(a.all)
}

// Undelivered returns the error with which the last alarm was not delivered; nil if it was, or there is
// no webhook any more.
func (a *Alarms) Undelivered() error {
	if err := a.lost.Load(); err != nil && a.hook.Load() != nil {
		return *err
	}
	return nil
}

// Run compares until ctx is done, and then waits for the alarms on their way, for two seconds. It is
// to be called once, and returns nil. Alarms that are raised after it are logged and not delivered.
func (a *Alarms) Run(ctx context.Context) error {
	for goesOn := true; goesOn; goesOn = a.cfg.Clock.Sleep(ctx, lookEvery) == nil {
		a.looks.Expect(a.cfg.Clock, lookEvery+lookGrace)
		a.look()
	}
	a.looks.Pause()
	a.mu.Lock()
	a.end()
	a.mu.Unlock()
	defer time.AfterFunc(a.grace, a.abandon).Stop()
	return a.underWay.Wait()
}

// Stuck returns an error if Run no longer comes round, as where the log takes no line.
func (a *Alarms) Stuck() error {
	if late := a.looks.Overdue(a.cfg.Clock); late > 0 {
		return fmt.Errorf("the loop that compares conditions is %s late", late.Round(time.Millisecond))
	}
	return nil
}

// look compares what is wrong with what was seen last, and tells what has begun or ended.
func (a *Alarms) look() {
	a.ask()
	var begun, over []condition.Condition
	stands := make(map[condition.Code]bool)
	now := a.cfg.Clock.Mono()
	a.asking.Lock()
	for k, s := range a.seen {
		switch {
		case s.last == a.last && !s.told && s.Severity != condition.Note && s.last-s.Since >= s.After:
			s.told = true
			begun = append(begun, s.Condition)
		case now-s.last >= overAfter:
			delete(a.seen, k)
			if s.told {
				over = append(over, s.Condition)
			}
			continue
		}
		stands[s.Code] = stands[s.Code] || s.told
	}
	a.asking.Unlock()
	condition.Sort(begun)
	for _, c := range begun {
		a.tell(c, 0)
	}
	for _, c := range over {
		a.cfg.Log.Info().Str("over", string(c.Code)).Str("subject", c.Subject).Dur("lasted_ms", now-c.Since).Msg("over: " + c.Headline)
	}
	a.resolve(stands)
}

// Tell logs and posts an event that happened now.
func (a *Alarms) Tell(c condition.Condition) {
	c.Since = a.cfg.Clock.Mono()
	a.mu.Lock()
	a.events = append(a.events, event{c, a.cfg.Clock.Read().Wall()})
	a.events = a.events[max(0, len(a.events)-keptEvents):]
	a.mu.Unlock()
	a.tell(c, c.Since+condition.EventStands)
}

// Events returns the last events, the newest first.
func (a *Alarms) Events() (all []views.OverviewEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range slices.Backward(a.events) {
		all = append(all, views.OverviewEvent{Time: e.at, Code: string(e.Code), Subject: e.Subject, Message: e.Headline, Cause: e.Cause})
	}
	return all
}

// tell writes the line of c, and counts and posts it where it is an alarm. An event stands until then, on the monotonic clock; 0: it is none.
func (a *Alarms) tell(c condition.Condition, until time.Duration) {
	n := notice{
		Code: c.Code, Status: "firing", Message: c.Headline, Node: a.cfg.Node, Time: a.cfg.Clock.Read().Wall().String(), Version: a.cfg.Version, Subject: condition.Clip(c.Subject, longest),
	}
	if c.Err != nil {
		n.Error = condition.Clip(c.Err.Error(), longest)
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
	if c.Severity == condition.Alarm {
		a.send(n, until)
	}
}
