// Package alarm is the one place that raises alarms: something that somebody has
// to look at. Each is a log line at level error with alarm=<code>, counts in
// leafd_alarms_total{code}, and goes to a webhook and a program where there are
// such. Many of one code are folded into few.
package alarm

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/leafd/leafd/clock"
)

// FoldWindow is how long further alarms of a code are folded after a line of it.
const FoldWindow = 10 * time.Second

const (
	// queued is how many alarms wait for a webhook or program that is busy.
	queued = 64
	// stopGrace is what Run has at its end to deliver what is queued.
	stopGrace = 2 * time.Second
)

// ErrConfig is returned by New for a webhook or a program that can't be used.
var ErrConfig = errors.New("bad configuration")

// Config is what Alarms need.
type Config struct {
	// Log gets a line for each alarm, and one for each that isn't delivered.
	Log zerolog.Logger
	// Registerer gets the counters. Required.
	Registerer prometheus.Registerer
	// Clock tells the time of alarms, the window of their folding and the
	// pauses between tries. Required.
	Clock clock.Clock
	// Webhook is an http or https URL that each alarm is posted to; it is a
	// secret. Empty: none.
	Webhook string
	// Exec is a program that is run for each alarm: a path, or a name that is
	// found in PATH. Empty: none.
	Exec string
	// Cause puts an error into words that Recent may show to everybody, or returns "";
	// nil: errors are not shown. It must not block.
	Cause func(error) string
	// Node and Version are told with each alarm.
	Node, Version string
}

// Alarms raises alarms. Raise may be called from the beginning, from any
// goroutine. It keeps:
//
//	alarm.R1  Raise waits for nobody: neither for a webhook nor for a program.
//	alarm.R2  Every call of Raise is counted, and is in a log line: its own, or one
//	    that tells how many are folded in it. The latter takes Run.
//	alarm.R3  The first alarm of a code within a FoldWindow is told at once, whatever
//	    other codes do; the rest of the window is one line at its end.
//	alarm.R4  What is queued for delivery is bounded. What isn't delivered is counted.
type Alarms struct {
	cfg     Config                      // immutable
	raised  map[Code]prometheus.Counter // immutable
	counter *prometheus.CounterVec      // of raised
	outlets []*outlet                   // immutable: one for each kind of target, whether there is one or not
	wake    chan struct{}               // tells Run that there is something in due
	limits  limits                      // immutable after New; tests shorten them

	mu    sync.Mutex
	codes map[Code]*state // mu protects
	due   []Code          // mu protects; codes that began to fold and whose window Run doesn't watch yet
	began bool            // mu protects; Run was called
	ended bool            // mu protects; Run is over: nothing is folded or delivered any more
}

// limits are real times, of things that have no clock of ours: sockets and
// processes.
type limits struct {
	grace time.Duration
}

// state is what was told of one code.
type state struct {
	told   bool          // there was a line
	last   time.Duration // monotonic time of the last line
	folded int           // raised since, and not told
	latest notice        // the last one of them
	now    occurrence
}

// New returns Alarms, with the counters of all Codes at 0. ErrConfig.
func New(cfg Config) (*Alarms, error) {
	if cfg.Registerer == nil || cfg.Clock == nil {
		return nil, fmt.Errorf("%w: Config needs Registerer and Clock", ErrConfig)
	}
	a := &Alarms{
		cfg:    cfg,
		raised: make(map[Code]prometheus.Counter),
		counter: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "leafd_alarms_total",
			Help: "Alarms raised, by code; docs/ALARMS.md tells what to do about each.",
		}, []string{"code"}),
		wake:   make(chan struct{}, 1),
		limits: limits{grace: stopGrace},
		codes:  make(map[Code]*state),
	}
	for _, info := range Codes() {
		a.raised[info.Code] = a.counter.WithLabelValues(string(info.Code))
	}
	deliveries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leafd_alarm_deliveries_total",
		Help: "Alarms delivered to the webhook and the program, by result: ok, failed, or dropped (queue full, or leafd was stopping).",
	}, []string{"to", "result"})
	for _, name := range []string{toWebhook, toExec} {
		a.outlets = append(a.outlets, newOutlet(name, deliveries, cfg.Log))
	}
	take, err := a.Targets(cfg.Webhook, cfg.Exec)
	if err != nil {
		return nil, err
	}
	take()
	for _, c := range []prometheus.Collector{a.counter, deliveries} {
		if err := cfg.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return a, nil
}

// Targets checks a webhook and a program, each as in Config, and returns what makes
// them the targets of the alarms that are raised from then on. What the targets
// before them are trying to deliver is tried once more. ErrConfig.
func (a *Alarms) Targets(webhook, program string) (take func(), err error) {
	to := map[string]deliverer{}
	if webhook != "" {
		cfg := a.cfg
		cfg.Webhook = webhook
		w, err := newWebhook(cfg)
		if err != nil {
			return nil, err
		}
		to[toWebhook] = w
	}
	if program != "" {
		p, err := newProgram(program)
		if err != nil {
			return nil, err
		}
		to[toExec] = p
	}
	return func() {
		for _, o := range a.outlets {
			o.set(to[o.name])
		}
	}, nil
}

// Raise raises an alarm. msg says what happened, in few words and the same each
// time; what differs is in fields.
func (a *Alarms) Raise(code Code, msg string, fields ...Field) {
	n := newNotice(a.cfg, code, msg, fields)
	cause := a.causeIn(fields)
	a.count(code)
	a.mu.Lock()
	now := a.cfg.Clock.Mono()
	s := a.codes[code]
	if s == nil {
		s = &state{}
		a.codes[code] = s
	}
	s.now.happens(n, cause, now)
	if s.told && !a.ended && now-s.last < FoldWindow { // alarm.R3
		s.folded++
		s.latest = n
		if s.folded == 1 {
			a.due = append(a.due, code)
			a.rouse()
		}
		a.mu.Unlock()
		return
	}
	if s.folded > 0 { // the window is over, and nobody told so yet
		n.Folded = s.folded + 1
		s.folded = 0
	}
	dropped := a.tellLocked(s, n, now)
	a.mu.Unlock()
	a.log(n, dropped)
}

func (a *Alarms) count(code Code) {
	if c, ok := a.raised[code]; ok {
		c.Inc()
		return
	}
	a.counter.WithLabelValues(string(code)).Inc()
}

// rouse tells Run to look at due.
func (a *Alarms) rouse() {
	select {
	case a.wake <- struct{}{}:
	default: // it is told already
	}
}

// tellLocked begins a window and queues n. It returns the outlets that have no
// room, and have not said so yet.
func (a *Alarms) tellLocked(s *state, n notice, now time.Duration) []*outlet {
	s.told, s.last = true, now
	encoded := false
	var dropped []*outlet
	for _, o := range a.outlets {
		if o.to.Load() == nil {
			continue
		}
		if !encoded {
			n.encode()
			encoded = true
		}
		if !o.offer(n, a.ended) {
			dropped = append(dropped, o)
		}
	}
	return dropped
}

// log writes the line of an alarm, outside the lock: alarm.R1 holds for all others when
// standard error is a pipe that nobody reads.
func (a *Alarms) log(n notice, dropped []*outlet) {
	e := a.cfg.Log.Error().Str("alarm", string(n.Code))
	for _, f := range n.fields {
		f.log(e)
	}
	if n.Folded > 0 {
		e.Int("folded", n.Folded)
	}
	e.Msg(n.Message)
	for _, o := range dropped {
		a.cfg.Log.Warn().Str("to", o.name).Int("queued", cap(o.queue)).Msg("an alarm is not delivered: the queue is full, or leafd is stopping; said once")
	}
}
