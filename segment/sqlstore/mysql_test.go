package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

const (
	javaScript = "testdata/leaf_alloc_java.sql"
	ourScript  = "../../deploy/leaf_alloc.sql"
	// generous stands in for the daemon's own time-outs where a test is not
	// about them and the machine may be busy.
	generous = "?timeout=30s&readTimeout=30s&writeTimeout=30s&innodb_lock_wait_timeout=30"
)

// newTable runs script, which makes a database leaf, on a database of its own.
// before runs first in it.
func newTable(t testing.TB, server *mariadbtest.Server, script, before string) (database string, db *sql.DB) {
	t.Helper()
	database = server.NewDatabase(t)
	db = server.DB(t, database)
	text, err := os.ReadFile(script)
	require.NoError(t, err)
	// The statements stay as they are; only the name of the database that
	// they create and use does not.
	adapted := strings.NewReplacer(
		"CREATE DATABASE IF NOT EXISTS leaf;", "", "CREATE DATABASE leaf;", "", "USE leaf;", "",
	).Replace(string(text))
	_, err = db.ExecContext(t.Context(), before+adapted)
	require.NoError(t, err)
	return database, db
}

func openMySQL(t testing.TB, dsn string) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(sqlstore.Config{DSN: dsn})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// execSQL runs SQL behind leafd's back.
func execSQL(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

func maxIDOf(t testing.TB, db *sql.DB, tag string) (maxID int64) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?", tag).Scan(&maxID)
	require.NoError(t, err)
	return maxID
}

func TestMySQLConformance(t *testing.T) {
	const wide = "ALTER DATABASE CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; "
	for name, c := range map[string]struct {
		script, before string
		narrow         bool
	}{
		"our table":                  {script: ourScript},
		"Java's table in latin1":     {script: javaScript, before: "ALTER DATABASE CHARACTER SET latin1; ", narrow: true},
		"Java's table in utf8mb4_ci": {script: javaScript, before: wide},
	} {
		t.Run(name, func(t *testing.T) {
			server := mariadbtest.Shared(t)
			storetest.RunSQL(t, func(t *testing.T) storetest.SQLFixture {
				database, db := newTable(t, server, c.script, c.before)
				dsn := server.DSN(database) + generous
				return storetest.SQLFixture{
					Open: func(t testing.TB) storetest.Store {
						t.Helper()
						store, err := sqlstore.Open(sqlstore.Config{DSN: dsn})
						require.NoError(t, err)
						return store
					},
					DB: db, Narrow: c.narrow,
				}
			})
		})
	}
}

// TestMySQLJavaScript runs the Java Leaf's script to the letter, the database's
// name included.
func TestMySQLJavaScript(t *testing.T) {
	server := mariadbtest.Shared(t)
	text, err := os.ReadFile(javaScript)
	require.NoError(t, err)
	db := server.DB(t, "")
	// The README has the reader choose the database in between.
	adapted := strings.Replace(string(text), "CREATE DATABASE leaf;", "CREATE DATABASE leaf; USE leaf;", 1)
	execSQL(t, db, adapted)
	t.Cleanup(func() {
		_, err := server.DB(t, "").ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE leaf")
		require.NoError(t, err)
	})
	store := openMySQL(t, server.DSN("leaf")+generous)
	r, err := store.Fetch(t.Context(), "leaf-segment-test", 0, 0)
	require.NoError(t, err)
	require.Equal(t, segment.Range{Lo: 1, Hi: 2001, Step: 2000}, r)
}

// TestMySQLOurScriptTwice: it is safe to run again on a table in use.
func TestMySQLOurScriptTwice(t *testing.T) {
	server := mariadbtest.Shared(t)
	db := server.DB(t, "")
	text, err := os.ReadFile(ourScript)
	require.NoError(t, err)
	name := server.NewDatabase(t)
	script := strings.NewReplacer("EXISTS leaf;", "EXISTS "+name+";", "USE leaf;", "USE "+name+";").Replace(string(text))
	execSQL(t, db, script)
	store := openMySQL(t, server.DSN(name)+generous)
	_, err = store.Fetch(t.Context(), "leaf-segment-test", 0, 0)
	require.NoError(t, err)
	execSQL(t, db, script)
	r, err := store.Fetch(t.Context(), "leaf-segment-test", 0, 0)
	require.NoError(t, err)
	require.Equal(t, segment.Range{Lo: 2001, Hi: 4001, Step: 2000}, r)
}

// TestMySQLAlteredTables: what people do to a table. Either the fetch is right,
// or it is refused and the row stays as it was.
func TestMySQLAlteredTables(t *testing.T) {
	for name, c := range map[string]struct {
		alter    string
		hi       int64 // the range is [1, hi)
		sentinel error
		says     string
	}{
		"max_id NULL": {
			alter:    "MODIFY max_id BIGINT NULL; UPDATE leaf_alloc SET max_id = NULL",
			sentinel: segment.ErrBadRow, says: "max_id is NULL",
		},
		"step NULL": {
			alter:    "MODIFY step INT NULL; UPDATE leaf_alloc SET step = NULL",
			sentinel: segment.ErrBadRow, says: "step is NULL",
		},
		"max_id text": {alter: "MODIFY max_id VARCHAR(40)", hi: 11},
		"max_id text, no number": {
			alter:    "MODIFY max_id VARCHAR(40); UPDATE leaf_alloc SET max_id = '12 apples'",
			sentinel: segment.ErrBadRow, says: `max_id is "12 apples"`,
		},
		"max_id text, empty": {
			alter:    "MODIFY max_id VARCHAR(40); UPDATE leaf_alloc SET max_id = ''",
			sentinel: segment.ErrBadRow, says: `max_id is ""`,
		},
		"step text, fraction": {
			alter:    "MODIFY step VARCHAR(40); UPDATE leaf_alloc SET step = '1.5'",
			sentinel: segment.ErrBadRow, says: `step is "1.5"`,
		},
		"step text, hexadecimal": {
			alter:    "MODIFY step VARCHAR(40); UPDATE leaf_alloc SET step = '0x10'",
			sentinel: segment.ErrBadRow, says: `step is "0x10"`,
		},
		"max_id unsigned, beyond int64": {
			alter:    "MODIFY max_id BIGINT UNSIGNED; UPDATE leaf_alloc SET max_id = 9223372036854775808",
			sentinel: segment.ErrBadRow, says: "no integer of 64 bits",
		},
		"max_id unsigned": {alter: "MODIFY max_id BIGINT UNSIGNED", hi: 11},
		"max_id INT":      {alter: "MODIFY max_id INT", hi: 11},
		"max_id INT, full": {
			alter:    "MODIFY max_id INT; UPDATE leaf_alloc SET max_id = 2147483640",
			sentinel: segment.ErrBadRow, says: "has to be BIGINT",
		},
		"max_id TINYINT, full": {
			alter:    "MODIFY max_id TINYINT; UPDATE leaf_alloc SET max_id = 120",
			sentinel: segment.ErrBadRow, says: "has to be BIGINT",
		},
		"max_id DOUBLE, rounding": {
			alter:    "MODIFY max_id DOUBLE; UPDATE leaf_alloc SET max_id = 1e17",
			sentinel: segment.ErrBadRow, says: "max_id",
		},
		"max_id FLOAT, rounding": {
			alter:    "MODIFY max_id FLOAT; UPDATE leaf_alloc SET max_id = 16777216, step = 1",
			sentinel: segment.ErrBadRow, says: "max_id",
		},
		"a trigger that clips": {
			alter:    "COMMENT ''; CREATE TRIGGER clip BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = 5",
			sentinel: segment.ErrBadRow, says: "max_id reads \"5\" after 11 was written",
		},
		"a trigger that keeps": {
			alter:    "COMMENT ''; CREATE TRIGGER keep BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.max_id = OLD.max_id",
			sentinel: segment.ErrBadRow, says: "max_id reads \"1\" after 11 was written",
		},
		"a trigger that refuses": {
			alter: "COMMENT ''; CREATE TRIGGER refuse BEFORE UPDATE ON leaf_alloc FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'",
			says:  "1644",
		},
		"a tag twice": {
			alter:    "DROP PRIMARY KEY; INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 5000, 10)",
			sentinel: segment.ErrBadRow, says: "biz_tag has to be the primary key",
		},
		"no key, but the tag once": {alter: "DROP PRIMARY KEY", hi: 11},
		"biz_tag as bytes":         {alter: "MODIFY biz_tag VARBINARY(128)", hi: 11},
		"biz_tag in utf16":         {alter: "MODIFY biz_tag VARCHAR(128) CHARACTER SET utf16", hi: 11},
		"biz_tag CHAR":             {alter: "MODIFY biz_tag CHAR(128)", hi: 11},
		"more columns":             {alter: "ADD COLUMN owner VARCHAR(20) NOT NULL DEFAULT 'me' FIRST, ADD COLUMN random INT NULL", hi: 11},
		"without update_time":      {alter: "DROP COLUMN update_time", hi: 11},
		"max_id renamed":           {alter: "CHANGE max_id maxid BIGINT", says: "deploy/leaf_alloc.sql"},
		"MyISAM":                   {alter: "ENGINE=MyISAM", says: "ALTER TABLE leaf_alloc ENGINE=InnoDB"},
		"Aria":                     {alter: "ENGINE=Aria", says: "ALTER TABLE leaf_alloc ENGINE=InnoDB"},
		"MEMORY":                   {alter: "ENGINE=MEMORY", says: "ALTER TABLE leaf_alloc ENGINE=InnoDB"},
	} {
		t.Run(name, func(t *testing.T) {
			server := mariadbtest.Shared(t)
			if server.MySQL() && name == "Aria" {
				return // it has none
			}
			database, db := newTable(t, server, ourScript, "")
			execSQL(t, db, "DELETE FROM leaf_alloc; INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
			execSQL(t, db, "ALTER TABLE leaf_alloc "+c.alter)
			before := snapshot(t, db)
			store := openMySQL(t, server.DSN(database)+generous)
			r, err := store.Fetch(t.Context(), "order", 0, 0)
			if c.hi > 0 {
				require.NoError(t, err)
				require.Equal(t, segment.Range{Lo: 1, Hi: c.hi, Step: 10}, r)
				return
			}
			require.ErrorContains(t, err, c.says)
			if c.sentinel != nil {
				require.ErrorIs(t, err, c.sentinel)
			}
			require.Equal(t, before, snapshot(t, db), "a refusal changes nothing")
		})
	}
}

// snapshot returns all rows of the table as text, without their times.
func snapshot(t testing.TB, db *sql.DB) (rows []string) {
	t.Helper()
	found, err := db.QueryContext(t.Context(), "SELECT * FROM leaf_alloc")
	require.NoError(t, err)
	defer found.Close()
	columns, err := found.Columns()
	require.NoError(t, err)
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for found.Next() {
		require.NoError(t, found.Scan(targets...))
		for i, column := range columns {
			if text, ok := values[i].([]byte); ok {
				values[i] = string(text)
			}
			if column == "update_time" {
				values[i] = nil
			}
		}
		rows = append(rows, fmt.Sprint(values...))
	}
	require.NoError(t, found.Err())
	return rows
}

// TestMySQLSpoiltRowHidesNoOther: one row without values among others.
func TestMySQLSpoiltRowHidesNoOther(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, ourScript, "")
	execSQL(t, db, "ALTER TABLE leaf_alloc MODIFY max_id VARCHAR(40) NULL, MODIFY step BIGINT NULL, MODIFY update_time VARCHAR(40) NULL;"+
		"INSERT INTO leaf_alloc VALUES ('spoilt', 'x', NULL, NULL, 'y'), ('sound', '7', 10, 'd', '2001-02-03 04:05:06')")
	store := openMySQL(t, server.DSN(database)+generous)
	got := map[string][2]int64{}
	require.NoError(t, storetest.Each(t.Context(), store, func(tag []byte, maxID, step int64) error {
		got[string(tag)] = [2]int64{maxID, step}
		return nil
	}))
	require.Equal(t, map[string][2]int64{"leaf-segment-test": {1, 2000}, "spoilt": {-1, -1}, "sound": {7, 10}}, got)
	rows, err := store.List(t.Context())
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.Equal(t, segment.Row{Tag: "spoilt", MaxID: -1, Step: -1}, rows[2])
	require.Equal(t, 2001, rows[1].UpdateTime.Year())
	_, err = store.Fetch(t.Context(), "spoilt", 10, 0)
	require.ErrorIs(t, err, segment.ErrBadRow)
	r, err := store.Fetch(t.Context(), "sound", 10, 0)
	require.NoError(t, err)
	require.Equal(t, segment.Range{Lo: 7, Hi: 17, Step: 10}, r)
}
