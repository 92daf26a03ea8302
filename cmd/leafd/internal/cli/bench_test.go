package cli

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/clitest"
)

func TestBenchOfAServerThatRepeats(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, Decimal(math.MaxInt64-n.Add(1)%3))
	}))
	t.Cleanup(server.Close)
	out := leafd(t, "bench", "--url", server.URL, "--duration", "1s", "--rate", "30", "--clients", "1")
	require.Equal(t, ExitFailure, out.Code)
	given := n.Load()
	for _, s := range []string{
		fmt.Sprintf("3 IDs came more than once, %d times too often; all %d IDs were compared", given-3, given),
		fmt.Sprintf("9223372036854775806, %d times", (given+2)/3),
	} {
		require.Contains(t, out.Stdout, s)
	}
	require.Contains(t, out.Stderr, fmt.Sprintf("IDs came more than once: %d", given-3))
}

func TestBenchProgressLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	every, tell := benchProgress(&b, true)
	require.Equal(t, 10*time.Second, every, "no terminal")
	tell(loadtest.Progress{
		Elapsed: 20 * time.Second, Interval: 10 * time.Second, Since: loadtest.Counts{Sent: 50, IDs: 500, Failed: 3},
		Latency: loadtest.Latency{P50: 310 * time.Microsecond, P99: 1234567 * time.Nanosecond, Max: 3 * time.Second}, Behind: 7,
	})
	require.Equal(t, "   20s          5 requests/s         50 IDs/s  p50 310 us  p99 1.23 ms max 3 s     failed 3  behind 7\n", b.String())
}

// TestBenchClaimsNoMoreThanItCompared: the verdict is of those IDs that were compared.
func TestBenchClaimsNoMoreThanItCompared(t *testing.T) {
	t.Parallel()
	for want, sets := range map[string][]loadtest.UniqueSet{
		"all 30 IDs were compared, and none came twice":                                  {{IDs: 10, Compared: 10}, {IDs: 20, Compared: 20}},
		"the first 15 of 30 IDs were compared, and none came twice":                      {{IDs: 10, Compared: 10}, {IDs: 20, Compared: 5}},
		"FAILED: 2 IDs came more than once, 3 times too often; all 10 IDs were compared": {{IDs: 10, Compared: 10, Repeated: 2, Surplus: 3}},
		"NOT KNOWN: no ID was compared":                                                  {{IDs: 10}},
	} {
		require.Equal(t, want, uniqueText(&loadtest.Result{Unique: sets}))
	}
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	none := clitest.WriteFile(t, "none.pem", "x")
	for _, tc := range []struct {
		name string
		args []string
		says string
	}{
		{"mode", []string{"--mode", "x"}, `mode is "x"`},
		{"segment without a tag", []string{"--mode", "segment"}, "--mode segment needs --key"},
		{"batch", []string{"-n", "0"}, "0 IDs a request"},
		{"clients", []string{"--clients", "0"}, "0 clients"},
		{"duration", []string{"--duration", "0"}, "duration is 0s"},
		{"no certificates", []string{"--ca-file", none}, "has no certificate"},
		{"no such file", []string{"--ca-file", none + "x"}, "--ca-file: certificates of the authorities: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			out := leafd(t, append([]string{"bench"}, tc.args...)...)
			out.Failed(t, ExitUsage, tc.says)
			require.NotContains(t, out.Stderr, "hunter2")
		})
	}
}
