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

func TestInspectorTable(t *testing.T) {
	server := mariadbtest.Shared(t)
	for _, tc := range []struct {
		name, sql string
		check     func(t *testing.T, f sqlstore.TableFacts)
	}{
		{"ours", leafTable, func(t *testing.T, f sqlstore.TableFacts) {
			require.Equal(t, sqlstore.TableFacts{
				Engine: "InnoDB", Transactional: true, UniqueTag: true,
				Columns: map[string]sqlstore.Column{
					"biz_tag": {Type: "varchar", Length: 128, Charset: "utf8mb4", Collation: "utf8mb4_bin"}, "max_id": {Type: "bigint"}, "step": {Type: "bigint"},
					"description": {Type: "varchar", Length: 256, Charset: "utf8mb4", Collation: f.Columns["description"].Collation}, "update_time": {Type: "timestamp"},
				},
			}, f)
		}},
		{"without transactions", "CREATE TABLE leaf_alloc (biz_tag varchar(64) PRIMARY KEY, max_id int, step int) ENGINE=MyISAM", func(t *testing.T, f sqlstore.TableFacts) {
			require.Equal(t, "MyISAM", f.Engine)
			require.False(t, f.Transactional)
			require.True(t, f.UniqueTag)
			require.Equal(t, "int", f.Columns["max_id"].Type)
			require.NotContains(t, f.Columns, "description")
		}},
		{"no key", "CREATE TABLE leaf_alloc (biz_tag varchar(64), max_id bigint, step int, KEY (biz_tag), UNIQUE (max_id))", func(t *testing.T, f sqlstore.TableFacts) {
			require.False(t, f.UniqueTag)
		}},
		{"a key of a part of it", "CREATE TABLE leaf_alloc (biz_tag varchar(64), max_id bigint, step int, UNIQUE (biz_tag(8)), UNIQUE (biz_tag, max_id))", func(t *testing.T, f sqlstore.TableFacts) {
			require.False(t, f.UniqueTag)
		}},
		{"a view", "CREATE TABLE t (biz_tag varchar(64), max_id bigint, step int); CREATE VIEW leaf_alloc AS SELECT * FROM t", func(t *testing.T, f sqlstore.TableFacts) {
			require.True(t, f.View)
		}},
		{"a trigger", leafTable + "; CREATE TRIGGER x BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = 1", func(t *testing.T, f sqlstore.TableFacts) {
			require.Equal(t, 1, f.Triggers)
			require.True(t, f.MovesMaxID)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := server.NewDatabase(t)
			_, err := server.DB(t, name).ExecContext(t.Context(), tc.sql)
			require.NoError(t, err)
			f, err := inspect(t, server.DSN(name)).Table(within(t, patience))
			require.NoError(t, err)
			tc.check(t, f)
		})
	}
	_, err := inspect(t, server.DSN(server.NewDatabase(t))).Table(within(t, patience))
	require.ErrorIs(t, err, sqlstore.ErrNoTable)
}

// The statements are explained, with the privileges that they need, and change nothing.
func TestInspectorPrivileges(t *testing.T) {
	server := mariadbtest.Shared(t)
	name := server.NewDatabase(t)
	db := server.DB(t, name)
	_, err := db.ExecContext(t.Context(), leafTable+"; INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('', 7, 10), ('a', 1, 0)")
	require.NoError(t, err)
	for i, tc := range []struct {
		name, grant string
		fetch       bool
		denied      []string // for managing tags
	}{
		{"all that leafd needs", "SELECT, INSERT, UPDATE, DELETE ON leaf_alloc", true, nil},
		{"ranges only", "SELECT, UPDATE ON leaf_alloc", true, []string{"INSERT", "DELETE"}},
		{"one column", "SELECT, UPDATE (max_id) ON leaf_alloc", true, []string{"INSERT", "DELETE", "UPDATE"}},
		{"of the database", "ALL ON " + name + ".*", true, nil},
		{"reading", "SELECT ON leaf_alloc", false, []string{"INSERT", "DELETE", "UPDATE"}},
		{"no reading", "INSERT ON leaf_alloc", false, []string{"DELETE", "UPDATE"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			user := fmt.Sprintf("%s_%d", name, i)
			_, err := db.ExecContext(t.Context(), fmt.Sprintf("CREATE USER %s@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT %s TO %s@'127.0.0.1'", user, tc.grant, user))
			require.NoError(t, err)
			i := inspect(t, user+":secret@tcp("+server.Addr()+")/"+name)
			fetch, manage, err := i.Privileges(within(t, patience))
			require.NoError(t, err)
			require.Equal(t, tc.fetch, fetch == nil, "%v", fetch)
			if !tc.fetch {
				require.ErrorContains(t, fetch, "SELECT and UPDATE")
			}
			require.Equal(t, tc.denied == nil, manage == nil, "%v", manage)
			for _, statement := range tc.denied {
				require.ErrorContains(t, manage, statement)
			}
		})
	}
	rows, err := inspect(t, server.DSN(name)).Tags(within(t, patience))
	require.NoError(t, err)
	require.ElementsMatch(t, []sqlstore.TagFacts{{MaxID: 7, Step: 10}, {Tag: "a", MaxID: 1}}, rows, "nothing was changed")
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
