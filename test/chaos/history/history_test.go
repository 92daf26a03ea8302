package history

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFileKeepsRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.gz")
	want := []Record{
		{Kind: KindRun, Seed: 42, Text: "chaos"},
		{Kind: KindLife, At: 1, Process: 1, Daemon: "leafd1", Host: 1},
		{Kind: KindClock, At: 2, Took: 3, Host: 1, From: -5, To: 6},
		{Kind: KindBegin, At: 3, Fault: 1, Text: "kill -9", Targets: []string{"leafd1", "leafd2"}},
		{Kind: KindRequest, At: 4, Took: 5, Wall: 6, Process: 1, Conn: 9, Stream: Snowflake, Asked: 5, Status: 200, IDs: []Run{{7, 1}, {9, 4}}},
		{Kind: KindRequest, At: 4, Process: 1, Conn: 9, Stream: "tag", Asked: 5, Status: 503, Code: "overloaded"},
	}
	w, err := Create(path)
	require.NoError(t, err)
	for i := range want {
		require.NoError(t, w.Write(&want[i]))
	}
	require.NoError(t, w.Close())
	var got []Record
	require.NoError(t, Read(path, func(r *Record) error { got = append(got, *r); return nil }))
	require.Equal(t, want, got)

	stop := errors.New("enough")
	require.ErrorIs(t, Read(path, func(*Record) error { return stop }), stop)
}

func TestReadOfWhatIsNoHistory(t *testing.T) {
	dir := t.TempDir()
	none := func(*Record) error { return nil }
	require.ErrorIs(t, Read(filepath.Join(dir, "nothing"), none), os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "text"), []byte("hello"), 0o600))
	require.ErrorContains(t, Read(filepath.Join(dir, "text"), none), "no history")

	whole := filepath.Join(dir, "whole")
	w, err := Create(whole)
	require.NoError(t, err)
	for i := range 1000 {
		require.NoError(t, w.Write(&Record{Kind: KindRequest, At: int64(i) * 7919, IDs: []Run{{int64(i * 104729), 1}}}))
	}
	require.NoError(t, w.Close())
	content, err := os.ReadFile(whole)
	require.NoError(t, err)
	cut := filepath.Join(dir, "cut")
	require.NoError(t, os.WriteFile(cut, content[:len(content)/2], 0o600))
	read := 0
	require.Error(t, Read(cut, func(*Record) error { read++; return nil }))
	require.Positive(t, read, "what is whole of it was read")
}

func TestRuns(t *testing.T) {
	for name, c := range map[string]struct {
		ids  []int64
		want []Run
	}{
		"none":      {nil, nil},
		"one":       {[]int64{5}, []Run{{5, 1}}},
		"a run":     {[]int64{5, 6, 7}, []Run{{5, 3}}},
		"gaps":      {[]int64{5, 7, 8, 20}, []Run{{5, 1}, {7, 2}, {20, 1}}},
		"unordered": {[]int64{7, 6, 5}, []Run{{7, 1}, {6, 1}, {5, 1}}},
		"twice":     {[]int64{5, 5}, []Run{{5, 1}, {5, 1}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Runs(c.ids)) })
	}
}

// A history may come from elsewhere.
func FuzzRun(f *testing.F) {
	f.Add([]byte("5"))
	f.Add([]byte("[5,3]"))
	f.Add([]byte("[5,0]"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Run
		if r.UnmarshalJSON(b) != nil {
			return
		}
		require.GreaterOrEqual(t, r.N, int64(1))
		text, err := r.MarshalJSON()
		require.NoError(t, err)
		var again Run
		require.NoError(t, again.UnmarshalJSON(text))
		require.Equal(t, r, again)
	})
}
