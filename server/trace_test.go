package server

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
)

// An error line has the trace of its request, and nothing of a header in another form.
func TestTraceOfARequest(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	const parent = "Traceparent: 00-" + trace + "-" + span + "-01"
	const line = `"trace_id":"` + trace + `","span_id":"` + span + `"`
	for name, test := range map[string]struct {
		err  error
		path string
		says string
	}{
		"internal": {errors.New("boom"), snowflakePrefix + "x", `"error":"boom","path":"` + snowflakePrefix + `x","message":"request failed"`},
		"refused":  {snowflake.ErrClockBackwards, snowflakePrefix + "x?n=2", `"code":"clock_backwards","path":"` + snowflakePrefix + `x","message":"request refused"`},
		"database": {errors.New("boom"), "/db", `"error":"boom","path":"/db","message":"leaf_alloc can't be read or changed"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, nil)
			r.flake.fail(test.err)
			r.table.fail(test.err)
			require.GreaterOrEqual(t, r.get(test.path, parent).status, 500)
			require.Contains(t, r.log.String(), line+","+test.says)
		})
	}

	r := start(t, nil)
	r.flake.fail(snowflake.ErrClockBackwards)
	r.get(snowflakePrefix+"x").requireError(t, 503, "clock_backwards")
	require.Empty(t, r.log.String(), "without a trace it is only counted")
	r.do("POST", "/api/segments", `{"tag":"new","step":5}`, bearer, parent)
	require.Contains(t, r.log.String(), line)
}
