package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/ids"
)

// The whole way of a request, through listener, connection and fasthttp, with a
// client that allocates nothing itself.
func TestHotPathAllocatesNothing(t *testing.T) {
	if raceEnabled {
		return // fasthttp's pools forget on purpose there
	}
	callers := withCallers()
	callers.RateLimit = 10_000_000
	r := start(t, nil)
	for _, test := range []struct {
		name, target, accept string
		live                 ids.Live
	}{
		{"snowflake", snowflakePrefix + "order", "", ids.Live{}},
		{"snowflake from a browser", snowflakePrefix + "order", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", ids.Live{}},
		{"segment", segmentPrefix + "order", "*/*", ids.Live{}},
		{"batch", snowflakePrefix + "order?n=100", "", ids.Live{}},
		{"segment batch", segmentPrefix + "order?n=10", "", ids.Live{}},
		{"ranges", snowflakePrefix + "order?n=10&as=ranges", "", ids.Live{}},
		{"ranges as JSON", segmentPrefix + "order?n=10&as=ranges", "application/json", ids.Live{}},
		{"JSON", snowflakePrefix + "order", "application/json", ids.Live{}},
		{"with rates", snowflakePrefix + "order", "", ids.Live{RateLimit: 10_000_000, RateLimits: map[string]int{"another": 5}}},
		{"a segment with rates", segmentPrefix + "order", "", ids.Live{RateLimit: 10_000_000}},
		{"of a caller", snowflakePrefix + "order", "", callers},
		{"of a caller's pattern", snowflakePrefix + "payment", "", callers},
	} {
		t.Run(test.name, func(t *testing.T) {
			r.SetLive(test.live)
			c := r.dial()
			request := []byte("GET " + test.target + " HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: " + test.accept + "\r\nAuthorization: Bearer " + shopToken + "\r\n\r\n")
			answer := make([]byte, 8192)
			n := 0
			allocs := testing.AllocsPerRun(2000, func() {
				if _, err := c.Write(request); err != nil {
					t.Error(err)
				}
				var err error
				if n, err = c.Read(answer); err != nil {
					t.Error(err)
				}
			})
			require.Contains(t, string(answer[:n]), "HTTP/1.1 200 OK")
			require.Zero(t, allocs)
		})
	}
}
