package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leafd/leafd/server/condition"
)

// line is the daemon's state in one line, as `systemctl status` shows it: the worst that is wrong,
// what serves, and how much more is wrong.
func (s *supervisor) line() string {
	d := s.d
	if !s.asked.Load() {
		return string(condition.StartingUp)
	}
	d.partsMu.Lock()
	l, segments := d.life, d.segments
	d.partsMu.Unlock()
	parts := []string{"ready"}
	all := slices.DeleteFunc(d.server.Conditions(), func(c condition.Condition) bool { return c.Event })
	if len(all) > 0 {
		worst := all[0]
		switch {
		case worst.Severity == condition.Note:
			parts[0] = string(worst.Code)
		case worst.NotReady:
			parts[0] = "NOT READY: " + worst.Headline
		default:
			parts[0] = "degraded: " + worst.Headline
		}
		if worst.Subject != "" {
			parts[0] += " (" + worst.Subject + ")"
		}
		if worst.Cause != "" {
			parts[0] += ": " + worst.Cause
		}
	}
	if len(all) > 0 && all[0].Code == condition.Draining {
		return parts[0]
	}
	if l != nil {
		r := l.worker.Record()
		name := fmt.Sprintf("worker %d (%s)", r.WorkerID, r.Node)
		if l.registry == nil {
			name += ", standalone"
		}
		parts = append(parts, name)
	}
	if segments != nil {
		parts = append(parts, fmt.Sprintf("%d tags of %s", segments.Len(), d.cfg.Store(true).Kind()))
	}
	if more := len(all) - 1; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more conditions: see /readyz", more))
	}
	return strings.Join(parts, "; ")
}
