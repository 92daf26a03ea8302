package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/mariadbtest"
)

// Every command reads the service's file where none is named, with the secrets in files that it
// names, and none makes a directory. On a packaged host each took the SQLite file in the working
// directory, without a word.
func TestEveryCommandReadsTheServicesFile(t *testing.T) {
	t.Parallel()
	server := mariadbtest.Shared(t)
	name := server.NewDatabase(t)
	db := server.DB(t, name)
	for _, statement := range []string{
		"CREATE TABLE leaf_alloc (biz_tag VARCHAR(128) PRIMARY KEY, max_id BIGINT NOT NULL DEFAULT 1, step INT NOT NULL, description VARCHAR(256), update_time TIMESTAMP)",
		"INSERT INTO leaf_alloc (biz_tag, step) VALUES ('of-the-service', 10)",
		"CREATE USER " + name + "@'127.0.0.1' IDENTIFIED BY 'hunter2-hunter2'",
		"GRANT ALL ON " + name + ".* TO " + name + "@'127.0.0.1'",
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	dir := filepath.Join(t.TempDir(), "data")
	dsn := strings.Replace(server.DSN(name), "root@", name+"@", 1)
	shared := clitest.WriteFile(t, "leafd.yaml", fmt.Sprintf("data-dir: %s\nmysql: %s\nmysql-password-file: %s\nlayout: 41+5+5+12\n", dir, dsn, clitest.WriteFile(t, "password", "hunter2-hunter2\n")))
	require.NoError(t, os.Chmod(shared, 0o644)) // as the packages have it: a DSN without a password is no secret
	alone := clitest.WriteFile(t, "leafd.yaml", fmt.Sprintf("data-dir: %s\nzk: 127.0.0.1:1\n", dir))

	with := func(file string, args ...string) clitest.Outcome { return invocation{args: args, file: file}.run(t) }
	require.Contains(t, with(shared, "segment", "list").OK(t), "of-the-service")
	require.Contains(t, with(shared, "segment", "update", "of-the-service", "--step", "20").OK(t), "20")
	with(shared, "segment", "delete", "of-the-service", "--yes").Failed(t, ExitUsage, "without --zk nothing keeps where its IDs ended", "--unguarded")
	require.Contains(t, with(shared, "segment", "create", "new").OK(t), " Nothing here knows of IDs that it gave before.")
	require.Contains(t, with(shared, "segment", "delete", "of-the-service", "--yes", "--unguarded").OK(t), "nothing keeps its max_id: create the tag again only above that")
	require.Contains(t, with(shared, "id", "decode", "5").OK(t), "DATACENTER")
	require.Equal(t, dir, captured(t, invocation{file: shared}).DataDir)
	for _, args := range [][]string{{"worker", "list"}, {"cluster", "status"}, {"cluster", "open"}, {"clock", "check"}, {"cluster", "init"}} {
		with(alone, append(args, "--timeout", "100ms")...).Failed(t, ExitFailure, "127.0.0.1:1")
	}
	with(alone, "worker", "self").Failed(t, ExitFailure, dir)
	require.Contains(t, with(alone, "doctor", "--timeout", "1s").Stdout, dir)
	with(alone, "segment", "list").Failed(t, ExitUsage, "want --mysql with --zk")
	require.NoDirExists(t, dir)

	other := map[string]string{"LEAFD_CONFIG": clitest.WriteFile(t, "env.yaml", "node: by-variable\n")}
	require.Equal(t, "by-variable", captured(t, invocation{file: shared, env: other}).Node)
	require.Equal(t, "leafd-data", captured(t, invocation{file: shared, env: other, args: []string{"--config="}}).DataDir)
	require.Equal(t, "leafd-data", captured(t, invocation{file: filepath.Join(dir, "absent.yaml")}).DataDir)
	with(t.TempDir(), "segment", "list").Failed(t, ExitUsage, "want a regular file, not a directory")
}
