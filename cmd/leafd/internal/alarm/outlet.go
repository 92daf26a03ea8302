package alarm

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Where alarms go, as the metrics name it.
const (
	toWebhook = "webhook"
	toExec    = "exec"
)

// deliverer takes alarms somewhere.
type deliverer interface {
	// deliver takes n there, and tries again where that may help. When life
	// ends it tries a last time at once; when work ends it returns.
	deliver(work, life context.Context, n notice) error
}

// target is where an outlet delivers to at present.
type target struct {
	deliverer

	replaced context.Context //nolint:containedctx // ends when another is in its place
	replace  context.CancelFunc
}

// deliver hands n to t, which tries a last time when it is replaced meanwhile: one
// that never answers must not keep the next one waiting.
func (t *target) deliver(work, life context.Context, n notice) error {
	life, end := context.WithCancel(life)
	defer end()
	defer context.AfterFunc(t.replaced, end)()
	return t.deliverer.deliver(work, life, n)
}

// outlet is a queue with one goroutine that empties it (alarm.R4).
type outlet struct {
	name                string
	to                  atomic.Pointer[target] // nil: nowhere
	queue               chan notice
	full                atomic.Bool // said so, and none was delivered since
	ok, failed, dropped prometheus.Counter
	log                 zerolog.Logger
}

func newOutlet(name string, deliveries *prometheus.CounterVec, log zerolog.Logger) *outlet {
	return &outlet{
		name:    name,
		queue:   make(chan notice, queued),
		ok:      deliveries.WithLabelValues(name, "ok"),
		failed:  deliveries.WithLabelValues(name, "failed"),
		dropped: deliveries.WithLabelValues(name, "dropped"),
		log:     log,
	}
}

// set makes to what is delivered to from the next alarm on; nil: nowhere.
func (o *outlet) set(to deliverer) {
	var next *target
	if to != nil {
		next = &target{deliverer: to}
		next.replaced, next.replace = context.WithCancel(context.Background())
	}
	if before := o.to.Swap(next); before != nil {
		before.replace()
	}
}

// offer queues n, unless it is over or the queue is full. It returns false when
// somebody has to be told of that.
func (o *outlet) offer(n notice, over bool) bool {
	if !over {
		select {
		case o.queue <- n:
			return true
		default:
		}
	}
	o.dropped.Inc()
	return o.full.Swap(true)
}

// run delivers until life ends, and then what is queued until work ends.
func (o *outlet) run(work, life context.Context) {
	left := 0
	for {
		var n notice
		select {
		case n = <-o.queue:
		case <-life.Done():
			select {
			case n = <-o.queue:
			default:
				if left > 0 {
					o.log.Warn().Str("to", o.name).Int("alarms", left).Msg("leafd stops: these alarms were not delivered in time")
				}
				return
			}
		}
		if work.Err() != nil {
			o.dropped.Inc()
			left++
			continue
		}
		to := o.to.Load()
		if to == nil { // taken away since n was queued
			o.dropped.Inc()
			continue
		}
		if err := to.deliver(work, life, n); err != nil {
			o.failed.Inc()
			o.log.Warn().Err(err).Str("to", o.name).Str("code", string(n.Code)).Msg("an alarm was not delivered")
			continue
		}
		o.ok.Inc()
		o.full.Store(false)
	}
}
