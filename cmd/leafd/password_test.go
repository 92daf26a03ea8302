package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/mariadbtest"
)

// A database's password is changed without a restart: in the file that is read at each new
// connection, and in the DSN, which a reload takes. Another database waits for a restart.
func TestDatabasePasswordIsRotated(t *testing.T) {
	t.Parallel()
	mariadb := mariadbtest.Start(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	exec := func(query string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	exec("CREATE USER leaf@'127.0.0.1' IDENTIFIED BY 'first'")
	exec("GRANT SELECT, INSERT, UPDATE, DELETE ON " + name + ".* TO leaf@'127.0.0.1'")
	// rotate changes the password, and ends all connections with the one before.
	rotate := func(password string) {
		t.Helper()
		exec("ALTER USER leaf@'127.0.0.1' IDENTIFIED BY '" + password + "'")
		rows, err := db.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'leaf'")
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			_, _ = db.ExecContext(t.Context(), "KILL "+id) // it may have ended
		}
		require.NoError(t, rows.Err())
	}
	dsn := func(password string) string {
		return strings.Replace(mariadb.DSN(name), "root@", "leaf"+password+"@", 1)
	}
	fetches := func(l *child, db *sql.DB) {
		t.Helper()
		before := maxIDOf(t, db, "a")
		require.Eventually(t, func() bool {
			return l.mustGet("/api/segment/get/a?n=1000").status == http.StatusOK && maxIDOf(t, db, "a") > before
		}, eventually, 10*time.Millisecond)
	}

	m := newMachine(t)
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) { require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600)) }
	write("first")
	l := m.ready("--mysql", dsn(""), "--mysql-password-file", file)
	fetches(l, db)
	write("second")
	rotate("second")
	fetches(l, db)
	require.NotContains(t, l.Log(), "second")
	require.Equal(t, 0, l.stop())

	config := filepath.Join(t.TempDir(), "leafd.yaml")
	set := func(dsn string) { require.NoError(t, os.WriteFile(config, []byte("mysql: "+dsn+"\n"), 0o600)) }
	set(dsn(":second"))
	l = m.ready("--config", config)
	fetches(l, db)
	set(dsn(":third"))
	rotate("third")
	l.signal(syscall.SIGHUP)
	l.awaitLog("reload: settings taken", "mysql: ")
	fetches(l, db)
	set(strings.Replace(dsn(":third"), "/"+name, "/"+mariadb.NewDatabase(t), 1))
	l.signal(syscall.SIGHUP)
	l.awaitLog("need a restart", `"mysql"`)
	fetches(l, db)
	require.NotContains(t, l.Log(), "third")
	require.Equal(t, 0, l.stop())
}
