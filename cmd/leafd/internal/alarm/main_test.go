package alarm

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/test/clocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// rig is Alarms with a clock, a log and counters of the test's.
type rig struct {
	*Alarms
	t     *testing.T
	clock *clocktest.Fake
	lines *lockedBuffer
	reg   *prometheus.Registry
}

const began = 1_700_000_000_000

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, clock: clocktest.New(time.UnixMilli(began)), lines: &lockedBuffer{}, reg: prometheus.NewRegistry()}
	cfg := Config{
		Log: zerolog.New(r.lines), Registerer: r.reg, Clock: r.clock, Node: "10.0.0.5:8080", Version: "1.2.3",
		Ask: func() []condition.Condition { return nil },
	}
	if change != nil {
		change(&cfg)
	}
	r.Alarms = New(cfg)
	r.grace = time.Minute // real time, of which busy machines need more
	return r
}

// newRigTo is newRig with the webhook.
func newRigTo(t *testing.T, webhook string) *rig {
	t.Helper()
	r := newRig(t, nil)
	r.postTo(webhook)
	return r
}

// postTo makes webhook the one that alarms are posted to.
func (r *rig) postTo(webhook string) {
	r.t.Helper()
	u, err := url.Parse(webhook)
	require.NoError(r.t, err)
	r.SetWebhook(u)
}

// start runs the alarms until the test ends or stop is called.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, <-ran)
	})
	r.t.Cleanup(stop)
	return stop
}

// told returns the log lines of alarms of a code; of all alarms for "".
func (r *rig) told(code condition.Code) []map[string]any {
	r.t.Helper()
	var list []map[string]any
	for line := range strings.Lines(r.lines.String()) {
		var m map[string]any
		require.NoError(r.t, json.Unmarshal([]byte(line), &m), line)
		if c, ok := m["alarm"]; ok && (code == "" || c == string(code)) {
			list = append(list, m)
		}
	}
	return list
}

// raise tells of an event with that code.
func (r *rig) raise(code condition.Code, subject string) {
	r.Tell(condition.ByCode(code, subject, nil))
}

// counter returns the value of a counter with these values of its labels, in the
// order of their names; -1 when there is none.
func (r *rig) counter(name string, labels ...string) int {
	r.t.Helper()
	families, err := r.reg.Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if strings.Join(values, " ") == strings.Join(labels, " ") {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	return -1
}

// delivered returns how many deliveries ended so.
func (r *rig) delivered(result string) int {
	r.t.Helper()
	return r.counter("leafd_alarm_deliveries_total", result)
}

// eventually waits for what another goroutine does.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, time.Millisecond)
}
