package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/clitest"
)

func TestSegmentCommandsOnSQLite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	seg := func(args ...string) clitest.Outcome {
		return leafd(t, append(append([]string{"segment"}, args...), "--data-dir", dir)...)
	}
	for _, args := range [][]string{{"list"}, {"create", "order"}, {"update", "order", "--step=5"}, {"delete", "order", "--yes"}} {
		seg(append(args, "--zk=127.0.0.1:1")...).Failed(t, ExitUsage, "want --mysql with --zk")
		seg(args...).Failed(t, ExitFailure, "no segment store at "+filepath.Join(dir, "segments.db"))
		require.NoDirExists(t, dir, "reading a mistyped directory creates none")
	}
	require.NoError(t, os.Mkdir(dir, 0o700))
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, settings.SegmentsFile))
	require.NoError(t, err)
	require.NoError(t, store.Close())
	useSegmentCommands(t, seg)

	// deleted-mark-stays: what a daemon has marked counts.
	marks, err := sqlstore.OpenHighWater(filepath.Join(dir, settings.MarksFile))
	require.NoError(t, err)
	_, err = marks.Use(t.Context(), sqlstore.Config{Path: filepath.Join(dir, settings.SegmentsFile)}.Name())
	require.NoError(t, err)
	require.NoError(t, marks.Raise(t.Context(), []segment.Mark{{Tag: "order", High: 5000}}))
	require.NoError(t, marks.Close())
	seg("create", "order", "--max-id=4999").Failed(t, ExitFailure, "max_id is below 5000")
	require.Contains(t, seg("create", "order").OK(t), "its first ID is 5000")
	seg("update", "order", "--max-id=7000").OK(t)
	require.Contains(t, seg("delete", "order", "--yes").OK(t), "its max_id is kept beside the store: created again, the tag goes on above it")
	require.Contains(t, seg("create", "order").OK(t), "its first ID is 7000")
}

// useSegmentCommands goes through the commands as an operator would use them.
func useSegmentCommands(t *testing.T, seg func(args ...string) clitest.Outcome) {
	t.Helper()
	list := func() map[string]SegmentJSON {
		rows := map[string]SegmentJSON{}
		for _, row := range clitest.FromJSON[[]SegmentJSON](t, seg("list", "-o", "json").OK(t)) {
			require.NotEmpty(t, row.UpdateTime)
			row.UpdateTime = ""
			rows[row.Tag] = row
		}
		return rows
	}

	out := seg("create", "order", "--step", "500", "--max-id=1000", "--description", "order\tnum\u202ebers").OK(t)
	require.Contains(t, out, `Created tag "order": its first ID is 1000, its step 500.`)
	require.Contains(t, out, "serves it at the first request: curl http://127.0.0.1:8080/api/segment/get/order\n")
	require.Equal(t, SegmentJSON{Tag: "order", MaxID: "1000", Step: 500, Description: "order\tnum\u202ebers"}, list()["order"])

	require.Contains(t, seg("create", "new").OK(t), "its first ID is 1, its step 2000. A running daemon")
	created := clitest.FromJSON[SegmentJSON](t, seg("create", "user", "-o", "json").OK(t))
	require.Equal(t, SegmentJSON{Tag: "user", MaxID: "1", Step: 2000}, created)
	require.Equal(t, created, list()["user"])

	table := seg("list").OK(t)
	require.True(t, strings.HasPrefix(table, "TAG "), table)
	require.Contains(t, table, "order?num?bers")
	require.Regexp(t, `(?m)^order +1000 +500 +order\?num\?bers +\d{4}-\d\d-\d\dT`, table)

	require.Contains(t, seg("update", "order", "--step=700").OK(t), `its step 700.`)
	require.Equal(t, SegmentJSON{Tag: "order", MaxID: "1000", Step: 700, Description: "order\tnum\u202ebers"}, list()["order"])
	updated := clitest.FromJSON[SegmentJSON](t, seg("update", "order", "--description=", "-o", "json").OK(t))
	require.NotEmpty(t, updated.UpdateTime)
	require.Equal(t, SegmentJSON{Tag: "order", MaxID: "1000", Step: 700}, list()["order"])

	require.Contains(t, seg("update", "order", "--max-id=4000").OK(t), `its max_id is 4000, its step 700.`)
	seg("update", "order", "--max-id=3999").Failed(t, ExitFailure, "max_id is never lowered")
	require.Equal(t, "4000", list()["order"].MaxID)
	seg("update", "nobody", "--max-id=5").Failed(t, ExitFailure, "nobody", "unknown tag")
	seg("create", "order").Failed(t, ExitFailure, "order", "exists already")
	seg("update", "nobody", "--step=5").Failed(t, ExitFailure, "nobody", "unknown tag")
	seg("delete", "nobody", "--yes").Failed(t, ExitFailure, "nobody", "unknown tag")
	require.Equal(t, SegmentJSON{Tag: "order", MaxID: "4000", Step: 700}, list()["order"])

	seg("delete", "order").Failed(t, ExitUsage, `tag "order" is not deleted`, "--yes")
	require.Contains(t, list(), "order")
	require.Contains(t, seg("delete", "order", "--yes").OK(t), `Deleted tag "order", whose max_id was 4000; `)
	require.NotContains(t, list(), "order")
	require.Equal(t, "user", clitest.FromJSON[SegmentJSON](t, seg("delete", "user", "--yes", "-o", "json").OK(t)).Tag)
	require.NotContains(t, list(), "user")
}

func TestSegmentDatabaseIsDown(t *testing.T) {
	t.Parallel()
	dsn := "leaf:hunter2@tcp(127.0.0.1:1)/leaf"
	for _, args := range [][]string{
		{"list"}, {"create", "order"}, {"update", "order", "--step=5"}, {"delete", "order", "--yes", "--unguarded"},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		out := leafd(t, append(append([]string{"segment"}, args...), "--mysql", dsn, "--data-dir", dir)...)
		out.Failed(t, ExitFailure, "127.0.0.1:1")
		require.NotContains(t, out.Stderr, "hunter2")
		require.NoDirExists(t, dir)
	}
}

// The line that tries a new tag names the daemon of the settings.
func TestSegmentCreateNamesTheDaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, "segments.db"))
	require.NoError(t, err)
	require.NoError(t, store.Close())
	for listen, want := range map[string]string{
		"10.1.2.3:9000": "http://10.1.2.3:9000", ":9001": "http://127.0.0.1:9001", "[::]:9002": "http://127.0.0.1:9002", "leaf.example:9003": "http://leaf.example:9003",
	} {
		out := leafd(t, "segment", "create", "a b"+listen[len(listen)-1:], "--data-dir", dir, "--listen", listen).OK(t)
		require.Contains(t, out, "curl "+want+"/api/segment/get/a%20b"+listen[len(listen)-1:]+"\n")
	}
	file := clitest.WriteFile(t, "leafd.yaml", "data-dir: "+dir+"\nlisten: '[fd00::1]:8443'\ntls-cert: not/to/be/read\ntls-key: nor/this\n")
	require.Contains(t, leafd(t, "segment", "create", "tls", "--config", file).OK(t), "curl https://[fd00::1]:8443/api/segment/get/tls\n")
}

func TestSegmentUsage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for _, tc := range []struct {
		name string
		args []string
		says string
	}{
		{"no tag", []string{"create"}, "[flags]\", and got "},
		{"empty tag", []string{"create", ""}, "the tag is empty"},
		{"long tag", []string{"create", strings.Repeat("t", 129)}, "has 129 characters and 129 bytes, above 128 or 512"},
		{"tag not UTF-8", []string{"create", "a\xff"}, "the tag isn't UTF-8"},
		{"tag that turns round", []string{"create", "a\u202eb"}, `tag "a\u202eb" has a character that is invisible or turns others round`},
		{"step 0", []string{"create", "a", "--step=0"}, "step 0 is below 1"},
		{"negative max-id", []string{"create", "a", "--max-id=-1"}, "max_id -1 is below 0"},
		{"range past the end", []string{"create", "a", "--max-id=9223372036854775000"}, "pass the end of int64"},
		{"nothing to update", []string{"update", "a"}, "nothing to change"},
		{"delete two", []string{"delete", "a", "b", "--yes"}, "[flags]\", and got "},
		{"list one", []string{"list", "a"}, `"a"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			leafd(t, append(append([]string{"segment"}, tc.args...), "--data-dir", dir)...).Failed(t, ExitUsage, tc.says)
			_, err := os.Stat(dir)
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}
