package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/bench/internal/wrk"
)

func TestFiguresOfLeafdBench(t *testing.T) {
	r, err := parseLeafdBench([]byte(`{"requests":8,"answered":8,"failed":0,"elapsed_ns":2000000000,"latency_ns":{"count":8,"mean":1,"p50":300000,"p90":4,"p99":900000}}`))
	require.NoError(t, err)
	require.Equal(t, wrk.Result{Requests: 8, Elapsed: 2 * time.Second, P50: 300 * time.Microsecond, P99: 900 * time.Microsecond}, r)
	for _, out := range []string{`{"answered":9,"failed":2,"elapsed_ns":5}`, `{"answered":0,"elapsed_ns":5}`} {
		_, err := parseLeafdBench([]byte(out))
		require.ErrorIs(t, err, wrk.ErrRefused)
	}
	_, err = parseLeafdBench([]byte("leafd: no"))
	require.ErrorContains(t, err, "figures of leafd bench")
}
