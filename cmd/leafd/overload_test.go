package main

import (
	"strings"

	"github.com/stretchr/testify/require"
)

// metric is the value of a metric of the daemon, named with its labels.
func (l *child) metric(name string) string {
	l.t.Helper()
	for line := range strings.Lines(l.scrape()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	require.FailNow(l.t, "no such metric", name)
	return ""
}
