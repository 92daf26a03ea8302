package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/clitest"
)

// guards is a cluster of machines that look at their peers often.
type guards struct {
	*cluster
	o *onlooker
}

func newGuards(t *testing.T) *guards {
	t.Helper()
	c := onShared(t)
	return &guards{c, c.watch()}
}

// often makes reports frequent; a busy machine may miss some.
func often(more ...string) []string {
	return append([]string{tune("ReportInterval", "500ms"), tune("CeilingLead", "3s")}, more...)
}

// machine returns a machine that looks at its peers often, too.
func (g *guards) machine(args ...string) *machine {
	g.t.Helper()
	m := g.cluster.machine(args...)
	m.peers = 300 * time.Millisecond
	return m
}

// file returns the local record's bytes; nil when there is none.
func (g *guards) file(m *machine) []byte {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.dataDir(), "worker.json"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(g.t, err)
	}
	return data
}

// refuses starts a daemon that the clock guards must not let start: exit 3, the
// alarm, and nothing written.
func (g *guards) refuses(m *machine, says string, args ...string) *child {
	t := m.t
	t.Helper()
	before, file := g.o.entries(), g.file(m)
	l := m.start(args...)
	l.exits(cli.ExitClock)
	require.True(t, l.hasLogged(`"alarm":"clock_refused"`, says), "%q in:\n%s", says, l.Log())
	require.NotContains(t, l.Log(), "issuing snowflake IDs")
	require.Equal(t, before, g.o.entries())
	require.Equal(t, file, g.file(m))
	return l
}

// run runs a command on a machine, with its clock.
func (g *guards) run(m *machine, args ...string) clitest.Outcome { return g.onMachine(m, args...) }

// awaitCode waits until path is refused with code.
func (l *child) awaitCode(path, code string) {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.mustGet(path).code() == code }, eventually, 20*time.Millisecond, "%s refused with %q", path, code)
}

// alarms returns how often an alarm was raised.
func (l *child) alarms(code string) int {
	return strings.Count(l.Log(), `"alarm":"`+code+`"`)
}
