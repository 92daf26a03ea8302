package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/test/mariadbtest"
)

// deployed is deploy/leaf_alloc.sql without its database.
func deployed(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("../../deploy/leaf_alloc.sql")
	require.NoError(t, err)
	return strings.NewReplacer("CREATE DATABASE IF NOT EXISTS leaf;", "", "USE leaf;", "").Replace(string(script))
}

func TestDoctorOfMySQL(t *testing.T) {
	t.Parallel()
	server := mariadbtest.Shared(t)
	script := deployed(t)
	many := "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('tag-0', 1, 1)"
	for i := range 10_000 {
		many += fmt.Sprintf(", ('tag-%d', 1, 1)", i+1)
	}
	for _, tc := range []struct {
		name, sql, grant string
		password         string // "" is the right one
		check            string
		status           doctor.Status
		says             []string
	}{
		{"as deployed", script, "SELECT, INSERT, UPDATE, DELETE ON leaf_alloc", "", "mysql-rights", doctor.OK, nil},
		{"wrong password", script, "SELECT ON leaf_alloc", "wrong", "mysql", doctor.Fail, []string{"Access denied", "check user, password"}},
		{"no table", "SELECT 1", "SELECT, UPDATE ON *.*", "", "mysql-table", doctor.Fail, []string{"no table leaf_alloc", "deploy/leaf_alloc.sql"}},
		{"MyISAM", strings.Replace(script, "InnoDB;", "MyISAM;", 1), "SELECT, UPDATE ON leaf_alloc", "", "mysql-table", doctor.Fail, []string{"MyISAM has no transactions", "ENGINE=InnoDB"}},
		{"no key", strings.Replace(script, "PRIMARY KEY (biz_tag)", "KEY (biz_tag)", 1), "SELECT, UPDATE ON leaf_alloc", "", "mysql-table", doctor.Warn, []string{"no key makes biz_tag unique"}},
		{"narrow column", strings.Replace(script, "max_id bigint", "max_id int", 1), "SELECT, UPDATE ON leaf_alloc", "", "mysql-table", doctor.Fail, []string{"column max_id is int: want BIGINT"}},
		{"column missing", strings.Replace(script, "step bigint NOT NULL", "stride bigint NOT NULL DEFAULT 1, description2 text, step2 int", 1), "SELECT, UPDATE ON leaf_alloc", "", "mysql-rights", doctor.Fail, []string{"Unknown column 'step'"}},
		{"folding collation", strings.Replace(script, "COLLATE utf8mb4_bin", "COLLATE utf8mb4_general_ci", 1), "SELECT, UPDATE ON leaf_alloc", "", "mysql-table", doctor.Warn, []string{"utf8mb4_general_ci"}},
		{"may not write", script, "SELECT ON leaf_alloc", "", "mysql-rights", doctor.Fail, []string{"UPDATE command denied", "GRANT SELECT, UPDATE"}},
		{"may not create tags", script, "SELECT, UPDATE ON leaf_alloc", "", "mysql-rights", doctor.Warn, []string{"tags can't be managed: ", "INSERT command denied"}},
		{"bad rows", script + "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 0), ('b', -5, 10);", "SELECT, UPDATE ON leaf_alloc", "", "mysql-tags", doctor.Fail, []string{`"a": step is 0`, `"b": max_id is -5`}},
		{"many rows", script + many, "SELECT, UPDATE ON leaf_alloc", "", "mysql-tags", doctor.OK, []string{"10002 tags"}},
		{"no rows", script + "DELETE FROM leaf_alloc;", "SELECT, UPDATE ON leaf_alloc", "", "mysql-tags", doctor.Warn, []string{"no tag"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			database := server.NewDatabase(t)
			db := server.DB(t, database)
			user := "doctor_" + database // one of its own in each run
			// A step that the script's own row has no value for.
			sql := tc.sql
			if strings.Contains(sql, "stride") {
				sql = sql[:strings.Index(sql, "INSERT IGNORE")]
			}
			_, err := db.ExecContext(t.Context(), sql)
			require.NoError(t, err)
			_, err = db.ExecContext(t.Context(), fmt.Sprintf("CREATE USER %s@'127.0.0.1' IDENTIFIED BY 'hunter2'; GRANT %s TO %s@'127.0.0.1'", user, tc.grant, user))
			require.NoError(t, err)
			password := tc.password
			if password == "" {
				password = "hunter2"
			}
			d := examine(t, clock.System(), "--listen", freeAddress(t), "--data-dir", t.TempDir(), "--modes", "segment",
				"--mysql", user+":"+password+"@tcp("+server.Addr()+")/"+database)
			d.result(tc.check, tc.status, tc.says...)
			if tc.status == doctor.Fail {
				d.only(tc.check)
				require.Equal(t, cli.ExitFailure, d.code)
			} else {
				d.well()
			}
		})
	}
}

func TestDoctorOfAServerThatIsReadOnlyOrDown(t *testing.T) {
	t.Parallel()
	server := mariadbtest.Start(t)
	database := server.NewDatabase(t)
	_, err := server.DB(t, database).ExecContext(t.Context(), deployed(t)+"SET GLOBAL read_only = 1; SET GLOBAL innodb_flush_log_at_trx_commit = 0")
	require.NoError(t, err)
	args := []string{"--listen", freeAddress(t), "--data-dir", t.TempDir(), "--mysql", server.DSN(database)}
	d := examine(t, clock.System(), args...)
	require.Equal(t, cli.ExitFailure, d.code)
	d.result("mysql", doctor.Fail, "is read-only", "primary")
	d.result("mysql-commits", doctor.Warn, "innodb_flush_log_at_trx_commit is 0", "SET GLOBAL")
	server.Stop(t)
	examine(t, clock.System(), args...).result("mysql", doctor.Fail, server.Addr(), "look at the server")
}
