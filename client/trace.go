package client

import (
	"context"
	"regexp"
)

// wellFormed is a traceparent of version 00. Anything else is not sent: a line break, say,
// would make the request fail.
var wellFormed = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceparent returns that of a caller; empty: it has none.
func (c *Client) traceparent(ctx context.Context) string {
	if c.cfg.Traceparent == nil {
		return ""
	}
	if t := c.cfg.Traceparent(ctx); wellFormed.MatchString(t) {
		return t
	}
	return ""
}

// traceparent returns that of the first call that waits and has one; empty: none.
func (s *Source) traceparent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiters {
		if w.traceparent != "" {
			return w.traceparent
		}
	}
	return ""
}
