package sqlstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

func inspect(t *testing.T, dsn string) *sqlstore.Inspector {
	t.Helper()
	i, err := sqlstore.OpenInspector(sqlstore.Config{DSN: dsn})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, i.Close()) })
	return i
}

// leafTable is the CREATE TABLE of deploy/leaf_alloc.sql, as it is.
const leafTable = `CREATE TABLE leaf_alloc (
  biz_tag varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  max_id bigint NOT NULL DEFAULT 1, step bigint NOT NULL,
  description varchar(256) CHARACTER SET utf8mb4 DEFAULT NULL,
  update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (biz_tag)) ENGINE=InnoDB`

// What the doctor is told of tables. Those that leafd knows are in TestMySQLTables, with the privileges that they need.
func TestInspectorTable(t *testing.T) {
	server := mariadbtest.Shared(t)
	for sql, is := range map[string]func(f sqlstore.TableFacts) bool{
		leafTable: func(f sqlstore.TableFacts) bool {
			return f.Engine == "InnoDB" && f.Transactional && f.UniqueTag && f.Triggers == 0 &&
				f.Columns["biz_tag"] == sqlstore.Column{Type: "varchar", Length: 128, Charset: "utf8mb4", Collation: "utf8mb4_bin"}
		},
		"CREATE TABLE leaf_alloc (biz_tag varchar(64), max_id bigint, step int, KEY (biz_tag), UNIQUE (max_id))":                func(f sqlstore.TableFacts) bool { return !f.UniqueTag },
		"CREATE TABLE leaf_alloc (biz_tag varchar(64), max_id bigint, step int, UNIQUE (biz_tag(8)), UNIQUE (biz_tag, max_id))": func(f sqlstore.TableFacts) bool { return !f.UniqueTag },
		"CREATE TABLE t (biz_tag varchar(64), max_id bigint, step int); CREATE VIEW leaf_alloc AS SELECT * FROM t":              func(f sqlstore.TableFacts) bool { return f.View },
		leafTable + "; CREATE TRIGGER x BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = 1":                            func(f sqlstore.TableFacts) bool { return f.Triggers == 1 && f.MovesMaxID },
	} {
		name := server.NewDatabase(t)
		_, err := server.DB(t, name).ExecContext(t.Context(), sql)
		require.NoError(t, err)
		f, err := inspect(t, server.DSN(name)).Table(within(t, patience))
		require.NoError(t, err)
		require.True(t, is(f), "%s: %+v", sql, f)
	}
	_, err := inspect(t, server.DSN(server.NewDatabase(t))).Table(within(t, patience))
	require.ErrorIs(t, err, sqlstore.ErrNoTable)
}

// What lets a server lose commits, and what it refuses when it logs statements.
func TestInspectorWeaknesses(t *testing.T) {
	server := mariadbtest.Start(t, "--log-bin", "--binlog-format=STATEMENT", "--sync-binlog=1")
	database, db := newTable(t, server, ourScript, "")
	execSQL(t, db, "CREATE USER plain@'127.0.0.1'; GRANT SELECT, INSERT, UPDATE, DELETE ON leaf_alloc TO plain@'127.0.0.1'")
	dsn := "plain@tcp(" + server.Addr() + ")/" + database
	facts := func(dsn string) (sqlstore.ServerFacts, string) {
		f, err := inspect(t, dsn).Server(within(t, patience))
		require.NoError(t, err)
		return f, fmt.Sprint(f.Weak)
	}
	f, _ := facts(dsn)
	require.Empty(t, f.Weak)
	require.True(t, f.StatementBinlog)
	_, err := storetest.Fetch(within(t, patience), openMySQL(t, dsn+generous), "leaf-segment-test", 0, 0)
	require.ErrorContains(t, err, "set binlog_format to ROW or MIXED")

	execSQL(t, db, "SET GLOBAL binlog_format = ROW; SET GLOBAL sync_binlog = 0; SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	f, weak := facts(dsn)
	require.False(t, f.StatementBinlog)
	require.Len(t, f.Weak, 2)
	require.Contains(t, weak, "innodb_flush_log_at_trx_commit is 2")
	require.Contains(t, weak, "sync_binlog is 0")
	_, err = storetest.Fetch(within(t, patience), openMySQL(t, dsn+generous), "leaf-segment-test", 0, 0)
	require.NoError(t, err)

	power := "READ ONLY ADMIN"
	if server.MySQL() {
		power = "CONNECTION_ADMIN"
	}
	execSQL(t, db, "SET GLOBAL sync_binlog = 1; SET GLOBAL innodb_flush_log_at_trx_commit = 1; GRANT "+power+" ON *.* TO plain@'127.0.0.1'; SET GLOBAL read_only = 1")
	f, weak = facts(dsn)
	require.True(t, f.ReadOnly)
	require.Len(t, f.Weak, 1)
	require.Contains(t, weak, "our account may write on a server that is read-only (")
	execSQL(t, db, "REVOKE "+power+" ON *.* FROM plain@'127.0.0.1'")
	f, _ = facts(dsn)
	require.Empty(t, f.Weak)
	f, weak = facts(server.DSN(database))
	require.Len(t, f.Weak, 1)
	require.Contains(t, weak, "SUPER")
}
