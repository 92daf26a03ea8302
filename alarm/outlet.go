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

// outlet is a queue with one goroutine that empties it (R4).
type outlet struct {
	name                string
	to                  deliverer
	queue               chan notice
	full                atomic.Bool // said so, and none was delivered since
	ok, failed, dropped prometheus.Counter
	log                 zerolog.Logger
}

func newOutlet(name string, to deliverer, deliveries *prometheus.CounterVec, log zerolog.Logger) *outlet {
	return &outlet{
		name:    name,
		to:      to,
		queue:   make(chan notice, queued),
		ok:      deliveries.WithLabelValues(name, "ok"),
		failed:  deliveries.WithLabelValues(name, "failed"),
		dropped: deliveries.WithLabelValues(name, "dropped"),
		log:     log,
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
		if err := o.to.deliver(work, life, n); err != nil {
			o.failed.Inc()
			o.log.Warn().Err(err).Str("to", o.name).Str("code", string(n.Code)).Msg("an alarm was not delivered")
			continue
		}
		o.ok.Inc()
		o.full.Store(false)
	}
}
