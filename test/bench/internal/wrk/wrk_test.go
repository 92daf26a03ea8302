package wrk

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const output = `Running 1s test @ http://127.0.0.1:8080/
  1 threads and 64 connections
Requests/sec: 210000.11

leafbench `

func TestParse(t *testing.T) {
	r, err := Parse([]byte(output + `{"requests":420000,"micros":2000000,"p50":300,"p99":900,"connect":0,"read":0,"write":0,"timeout":0,"status":0}` + "\n"))
	require.NoError(t, err)
	require.Equal(t, Result{Requests: 420000, Elapsed: 2 * time.Second, P50: 300 * time.Microsecond, P99: 900 * time.Microsecond}, r)
	require.InDelta(t, 210000, r.PerSecond(), 1e-6)
}

func TestParseRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		out, want string
		refused   bool
	}{
		"failed statuses":   {output + `{"requests":10,"micros":1000,"status":3}`, "3 status", true},
		"broken sockets":    {output + `{"requests":10,"micros":1000,"read":2}`, "2 read", true},
		"nothing answered":  {output + `{"requests":0,"micros":1000}`, "none was answered", true},
		"figures cut short": {output + `{"requests":10,`, "unexpected end", false},
		"no figures":        {"unable to connect\n", "unable to connect", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.out))
			require.ErrorContains(t, err, tc.want)
			if tc.refused {
				require.ErrorIs(t, err, ErrRefused)
			}
		})
	}
}
