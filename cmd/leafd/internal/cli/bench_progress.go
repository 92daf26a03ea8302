package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/internal/loadtest/unique"
)

// How often progress is told: to a person who watches, and to a log.
const (
	benchEveryTerminal = time.Second
	benchEveryLog      = 10 * time.Second
)

// benchProgress tells on standard error how a load is going. A failure
// to print has nobody to be reported to.
type benchProgress struct {
	w     io.Writer
	every time.Duration
	open  bool // an open loop
	stage unique.Stage
	told  time.Time
}

func newBenchProgress(w io.Writer, cfg loadtest.Config) *benchProgress {
	p := &benchProgress{w: w, every: benchEveryLog, open: cfg.Rate > 0}
	if daemon.IsTerminal(w) {
		p.every = benchEveryTerminal
	}
	return p
}

// load tells of a load under way.
func (b *benchProgress) load(p loadtest.Progress) {
	seconds := p.Interval.Seconds()
	line := fmt.Sprintf("%5.0fs  %9.0f requests/s  %9.0f IDs/s  p50 %-7s p99 %-7s max %-7s failed %d",
		p.Elapsed.Seconds(), float64(p.Since.Sent)/seconds, float64(p.Since.IDs)/seconds,
		latencyText(p.Latency.P50), latencyText(p.Latency.P99), latencyText(p.Latency.Max), p.Since.Failed)
	if b.open {
		line += fmt.Sprintf("  behind %d", p.Behind)
	}
	_, _ = fmt.Fprintln(b.w, line)
}

// check tells of a check under way.
func (b *benchProgress) check(stage unique.Stage, done, total int64) {
	now := time.Now()
	if stage != b.stage {
		b.stage = stage
		b.told = now
	}
	if now.Sub(b.told) < b.every {
		return
	}
	b.told = now
	_, _ = fmt.Fprintf(b.w, "check: %s, %s of %d IDs\n", stage, percent(done, total), total)
}

// latencyText is d with three digits, for people.
func latencyText(d time.Duration) string {
	switch us := float64(d) / float64(time.Microsecond); {
	case us < 999.5:
		return fmt.Sprintf("%.3g us", us)
	case us < 999.5e3:
		return fmt.Sprintf("%.3g ms", us/1e3)
	default:
		return fmt.Sprintf("%.4g s", us/1e6)
	}
}
