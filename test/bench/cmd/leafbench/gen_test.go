package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadBenchmarks(t *testing.T) {
	all := map[string]map[string][]float64{}
	const rounds = `goos: linux
BenchmarkFree/leafd/Alone-2         	 5709044	        43.14 ns/op	         1.002 cpus
BenchmarkFree/leafd/Alone-2         	 5709044	        42 ns/op	         0.9 cpus
BenchmarkSonyflake-2                 	      22	        71.62 ns/op
PASS
`
	require.NoError(t, readBenchmarks([]byte(rounds), all))
	require.Equal(t, map[string]map[string][]float64{
		"Free/leafd/Alone": {"ns/op": {43.14, 42}, "cpus": {1.002, 0.9}},
		"Sonyflake":        {"ns/op": {71.62}},
	}, all)
}

func TestReadBenchmarksRefuses(t *testing.T) {
	for name, out := range map[string]string{
		"nothing":      "PASS\n",
		"not a figure": "BenchmarkX-2   100   fast ns/op\n",
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, readBenchmarks([]byte(out), map[string]map[string][]float64{}))
		})
	}
}

func TestChoose(t *testing.T) {
	every, err := choose(nil)
	require.NoError(t, err)
	require.Len(t, every, 5)
	one, err := choose([]string{"start"})
	require.NoError(t, err)
	require.Len(t, one, 1)
	require.Equal(t, "start", one[0].name)
	_, err = choose([]string{"stop"})
	require.ErrorContains(t, err, `no section "stop"`)
}
