package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/chaos/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommands(t *testing.T) {
	for name, args := range map[string][]string{
		"none":          nil,
		"unknown":       {"calm"},
		"unknown flag":  {"run", "-weather", "fine"},
		"unknown fault": {"plan", "-mix", "sunshine=1"},
		"bad weight":    {"plan", "-mix", "kill -9=x"},
		"no file":       {"check"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.ErrorIs(t, run(t.Context(), args, &out, &errs), errUsage)
		})
	}
	var out, again bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"plan", "-seed", "7"}, &out, &again))
	require.NoError(t, run(t.Context(), []string{"plan", "-seed", "7"}, &again, &again))
	require.Equal(t, out.String(), again.String())
	require.Contains(t, out.String(), "plan   1: ")
}

func TestCheck(t *testing.T) {
	records := []history.Record{
		{Kind: history.KindLife, Process: 1, Daemon: "leafd1", Host: 1},
		{Kind: history.KindLife, Process: 2, Daemon: "leafd2", Host: 2},
		{Kind: history.KindRequest, Process: 1, Conn: 1, Stream: "tag", Asked: 2, Status: 200, Took: 1, IDs: []history.Run{{Lo: 5, N: 2}}},
	}
	write := func(t *testing.T, more ...history.Record) string {
		path := filepath.Join(t.TempDir(), "history")
		w, err := history.Create(path)
		require.NoError(t, err)
		for _, r := range append(records, more...) {
			require.NoError(t, w.Write(&r))
		}
		require.NoError(t, w.Close())
		return path
	}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"check", write(t)}, &out, &out))
	require.Contains(t, out.String(), "1 requests, 2 IDs, no violation")

	again := history.Record{Kind: history.KindRequest, At: 10, Process: 2, Conn: 2, Stream: "tag", Asked: 1, Status: 200, Took: 1, IDs: []history.Run{{Lo: 6, N: 1}}}
	out.Reset()
	require.ErrorIs(t, run(t.Context(), []string{"check", write(t, again)}, &out, &out), errViolation)
	require.Contains(t, out.String(), "6 was given out more than once")
	require.Contains(t, out.String(), "process 1")
	require.Contains(t, out.String(), "process 2")
}
