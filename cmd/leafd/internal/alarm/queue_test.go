package alarm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// alarm.R4: a receiver that hangs costs the alarms that don't fit, not the daemon.
func TestWebhookQueueOverflow(t *testing.T) {
	s := receive(t, nil)
	s.hold = make(chan struct{})
	r := newRig(t, func(c *Config) { c.Webhook = s.URL })
	stop := r.start()
	code := func(i int) Code { return Code(fmt.Sprintf("test_%03d", i)) }
	r.Raise(code(0), "under way")
	<-s.got
	const more = 10
	for i := 1; i <= queued+more; i++ {
		r.Raise(code(i), "x")
	}
	require.Len(t, r.told(""), 1+queued+more)
	require.Equal(t, more, r.delivered("dropped", "webhook"))
	require.Equal(t, 1, strings.Count(r.lines.String(), "the queue is full"), "said once")
	close(s.hold)
	eventually(t, func() bool { return r.delivered("ok", "webhook") == 1+queued })
	for i, c := range s.codes(t) {
		require.Equal(t, string(code(i)), c, "in order")
	}
	stop()
	r.Raise(code(0), "after the end")
	require.Equal(t, more+1, r.delivered("dropped", "webhook"))
	require.Equal(t, 2, strings.Count(r.lines.String(), "leafd is stopping; said once"))
	require.Equal(t, int64(1+queued), s.asked.Load())
}

func TestWebhookAtTheStop(t *testing.T) {
	t.Run("what is queued is delivered", func(t *testing.T) {
		s := receive(t, nil)
		r := newRig(t, func(c *Config) { c.Webhook = s.URL })
		r.Raise(ClockRefused, "before Run")
		r.Raise(ClockJumped, "first")
		r.Raise(ClockJumped, "folded")
		r.start()()
		require.Equal(t, []string{"clock_refused", "clock_jumped", "clock_jumped"}, s.codes(t))
		require.Equal(t, 3, r.delivered("ok", "webhook"))
	})
	t.Run("a pause ends in a last try", func(t *testing.T) {
		s := receive(t, status(500, 500))
		r := newRig(t, func(c *Config) { c.Webhook = s.URL })
		stop := r.start()
		r.Raise(ClockJumped, "x")
		eventually(t, func() bool { return r.clock.Sleepers() == 1 })
		stop()
		require.Equal(t, int64(2), s.asked.Load())
		require.Equal(t, 1, r.delivered("failed", "webhook"))
		require.Contains(t, r.lines.String(), "leafd is stopping")
	})
	t.Run("a receiver that hangs is left", func(t *testing.T) {
		s := receive(t, nil)
		s.hold = make(chan struct{})
		r := newRig(t, func(c *Config) { c.Webhook = s.URL + secretPath })
		r.limits.grace = 50 * time.Millisecond
		stop := r.start()
		r.Raise(ClockJumped, "under way")
		<-s.got
		r.Raise(ClockBackwards, "queued")
		r.Raise(PeersSilent, "queued")
		stop()
		close(s.hold)
		require.Equal(t, 1, r.delivered("failed", "webhook"))
		require.Equal(t, 2, r.delivered("dropped", "webhook"))
		require.Contains(t, r.lines.String(), `"alarms":2`)
		requireSecret(t, r)
	})
}
