package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
)

// inner and outer have a field of each kind that answers have.
type inner struct {
	State string `json:"state"`
	Life  int64  `json:"life,omitempty"`
}

type outer struct {
	inner

	ID     int64               `json:"id"`
	At     clock.Millis        `json:"at,omitempty"`
	Offset *reply.Milliseconds `json:"offset_ms,omitempty"`
	Lease  time.Duration       `json:"lease,omitempty"`
	Peers  []string            `json:"peers,omitempty"`
	Entry  *inner              `json:"entry,omitempty"`
	Hidden string              `json:"-"`
}

// A table has the fields that JSON has, with its names, and none that isn't set.
func TestTablesOfAnswers(t *testing.T) {
	t.Parallel()
	a := newApp(Process{Clock: clocktest.New(clitest.Now)})
	full := outer{
		inner: inner{State: "live", Life: 12}, ID: 7, At: a.wall().Add(-time.Minute), Offset: new(reply.Milliseconds(-1500 * time.Microsecond)),
		Lease: 168 * time.Hour, Peers: []string{"a", "b"}, Entry: &inner{State: "x\ny"}, Hidden: "h",
	}
	lines := func(show func(w *strings.Builder) error) (lines []string) {
		var b strings.Builder
		require.NoError(t, show(&b))
		for line := range strings.Lines(b.String()) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return lines
	}
	require.Equal(t, []string{
		"FIELD VALUE", "state live", "life 12", "id 7", "at 2026-11-21T09:59:00.123Z (1m00s ago)", "offset -1.5ms", "lease 168h", "peers a b", "entry.state x?y",
	}, lines(func(w *strings.Builder) error { return a.fields(full)(w) }))
	require.Equal(t, []string{"FIELD VALUE", "id 0"}, lines(func(w *strings.Builder) error { return a.fields(outer{})(w) }))

	flat := full
	flat.Entry = nil
	for name, tc := range map[string]struct {
		list  []outer
		names []string
		want  []string
	}{
		"all":              {[]outer{flat, {ID: 8}}, nil, []string{"STATE LIFE ID AT OFFSET LEASE PEERS", "live 12 7 2026-11-21 09:59:00 -1.5ms 168h a b", "- - 8 - - - -"}},
		"chosen":           {[]outer{flat, {ID: 8}}, []string{"id", "offset"}, []string{"ID OFFSET", "7 -1.5ms", "8 -"}},
		"a column of none": {[]outer{{ID: 8}}, []string{"id", "offset"}, []string{"ID", "8"}},
		"nothing":          {nil, []string{"id", "offset"}, []string{"ID OFFSET"}},
	} {
		require.Equal(t, tc.want, lines(func(w *strings.Builder) error { return columns(tc.list, tc.names...)(w) }), name)
	}
}
