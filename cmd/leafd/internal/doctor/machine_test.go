package doctor

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The real machine can be asked, regardless of its answer.
func TestRealMachine(t *testing.T) {
	p := &Patient{}
	require.Contains(t, look(t, p.ntp), "ntp")
	require.Contains(t, look(t, p.openFiles), "open-files")
}

func TestKernelClock(t *testing.T) {
	for _, tc := range []struct {
		name   string
		state  ntp
		err    error
		status Status
		says   string // in what was found, or in what to do
	}{
		{"synchronised", ntp{synchronised: true, estimatedError: time.Millisecond}, nil, OK, "1ms"},
		{"not synchronised", ntp{}, nil, Warn, "run chrony or systemd-timesyncd"},
		{"loose", ntp{synchronised: true, estimatedError: 3 * time.Second}, nil, Warn, "estimated error of 3s"},
		{"leap second", ntp{synchronised: true, leapSecond: true}, nil, Warn, "leap second"},
		{"may not ask", ntp{}, errors.New("operation not permitted"), Warn, "operation not permitted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := look(t, func(_ context.Context, r *report) { judgeNTP(r, tc.state, tc.err) })["ntp"]
			require.Equal(t, tc.status, r.Status)
			require.Contains(t, r.Found+" "+r.Do, tc.says)
		})
	}
	require.Empty(t, look(t, func(_ context.Context, r *report) { judgeNTP(r, ntp{}, errors.ErrUnsupported) }), "another system has no adjtimex")
}

func TestOpenFiles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		open   uint64
		status Status
		says   string
	}{
		{"files enough", 65_920, OK, "65536 connections"},
		{"no limit of files", math.MaxUint64, OK, ""},
		{"files for few", 1024, Warn, "enough for 640 connections and not for the 65536 that leafd can takeLimitNOFILE=65920"},
		{"few files", 511, Fail, "leafd needs 512"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := look(t, func(_ context.Context, r *report) { judgeFiles(r, tc.open) })["open-files"]
			require.Equal(t, tc.status, r.Status, r)
			require.Contains(t, r.Found+r.Do, tc.says)
		})
	}
}
