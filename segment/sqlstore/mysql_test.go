package sqlstore_test

import (
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
	javaScript      = "testdata/tables/java_leaf.sql"
	articleScript   = "testdata/tables/article.sql"
	articleIDScript = "testdata/tables/article_id.sql"
	ourScript       = "../../deploy/leaf_alloc.sql"
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

// sharedTable is newTable on the shared server.
func sharedTable(t testing.TB, script, before string) (server *mariadbtest.Server, database string, db *sql.DB) {
	t.Helper()
	server = mariadbtest.Shared(t)
	database, db = newTable(t, server, script, before)
	return server, database, db
}

func configOf(dsn string) sqlstore.Config { return sqlstore.Config{DSN: dsn} }

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

const wide = "ALTER DATABASE CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; "

// tables are the tables that leafd meets: its own, the Java Leaf's, and those of the articles. Every path goes through each in
// TestMySQLTables; the whole suite through those with a fixture.
var tables = map[string]struct {
	script, before, after string
	fixture               *storetest.SQLFixture
}{
	"our table":                      {script: ourScript, fixture: &storetest.SQLFixture{}},
	"Java's table in latin1":         {script: javaScript, before: "ALTER DATABASE CHARACTER SET latin1; ", fixture: &storetest.SQLFixture{Narrow: true}},
	"Java's table in utf8mb4_ci":     {script: javaScript, before: wide},
	"the article's table in utf8":    {script: articleScript, before: "ALTER DATABASE CHARACTER SET utf8; "},
	"the article's table with an id": {script: articleIDScript, before: wide, fixture: &storetest.SQLFixture{Description: "desc", NoTime: true}},
	"with an id, and biz_tag unique": {
		script: articleIDScript, before: wide, after: "ALTER TABLE leaf_alloc DROP KEY biz_tag, ADD UNIQUE (biz_tag)",
	},
}

func TestMySQLConformance(t *testing.T) {
	for name, c := range tables {
		if c.fixture == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			server := mariadbtest.Shared(t)
			storetest.RunSQL(t, func(t *testing.T) storetest.SQLFixture {
				database, db := newTable(t, server, c.script, c.before)
				if c.fixture.NoTime { // an operator's INSERT gives one
					execSQL(t, db, "ALTER TABLE leaf_alloc ALTER create_time SET DEFAULT '2001-02-03'")
				}
				dsn := server.DSN(database) + generous
				fixture := *c.fixture
				fixture.DB = db
				fixture.Open = func(t testing.TB) storetest.Store {
					t.Helper()
					store, err := sqlstore.Open(sqlstore.Config{DSN: dsn})
					require.NoError(t, err)
					return store
				}
				return fixture
			})
		})
	}
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
	_, err = storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
	require.NoError(t, err)
	execSQL(t, db, script)
	r, err := storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
	require.NoError(t, err)
	require.Equal(t, segment.Range{Lo: 2001, Hi: 4001}, r)
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
			sentinel: segment.ErrBadRow, says: "max_id is -1",
		},
		"step NULL": {
			alter:    "MODIFY step INT NULL; UPDATE leaf_alloc SET step = NULL",
			sentinel: segment.ErrBadRow, says: "step is -1",
		},
		"max_id text": {
			alter:    "MODIFY max_id VARCHAR(40)",
			sentinel: segment.ErrStore, says: "both have to be integers: max_id BIGINT",
		},
		"step text": {
			alter:    "MODIFY step VARCHAR(40)",
			sentinel: segment.ErrStore, says: "both have to be integers: max_id BIGINT",
		},
		"max_id unsigned, beyond int64": {
			alter:    "MODIFY max_id BIGINT UNSIGNED; UPDATE leaf_alloc SET max_id = 9223372036854775808",
			sentinel: segment.ErrBadRow, says: "below 0 or no integer",
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
		"max_id DOUBLE": {
			alter:    "MODIFY max_id DOUBLE",
			sentinel: segment.ErrStore, says: "both have to be integers: max_id BIGINT",
		},
		"a trigger that clips": {
			alter:    "COMMENT ''; CREATE TRIGGER clip BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.Max_ID = 5",
			sentinel: segment.ErrStore, says: "a trigger before UPDATE names max_id",
		},
		"a trigger that is of something else": {
			alter: "COMMENT ''; CREATE TRIGGER other BEFORE UPDATE ON leaf_alloc FOR EACH ROW SET NEW.step = OLD.step", hi: 11,
		},
		"a trigger that refuses": {
			alter: "COMMENT ''; CREATE TRIGGER refuse BEFORE UPDATE ON leaf_alloc FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'",
			says:  "1644",
		},
		"a tag twice": {
			alter:    "DROP PRIMARY KEY; INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)",
			sentinel: nil, says: "2 instead of 1",
		},
		"a view": {
			alter:    "RENAME TO t; CREATE VIEW leaf_alloc AS SELECT * FROM t",
			sentinel: segment.ErrStore, says: "it is a view",
		},
		"no key, but the tag once": {alter: "DROP PRIMARY KEY", hi: 11},
		"biz_tag as bytes":         {alter: "MODIFY biz_tag VARBINARY(128)", hi: 11},
		"biz_tag in utf16":         {alter: "MODIFY biz_tag VARCHAR(128) CHARACTER SET utf16", hi: 11},
		"biz_tag CHAR":             {alter: "MODIFY biz_tag CHAR(128)", hi: 11},
		"more columns":             {alter: "ADD COLUMN owner VARCHAR(20) NOT NULL DEFAULT 'me' FIRST, ADD COLUMN random INT NULL", hi: 11},
		"without update_time":      {alter: "DROP COLUMN update_time", hi: 11},
		"max_id renamed":           {alter: "CHANGE max_id maxid BIGINT", sentinel: segment.ErrStore, says: "it lacks biz_tag, max_id or step"},
		"MyISAM":                   {alter: "ENGINE=MyISAM", sentinel: segment.ErrStore, says: "ALTER TABLE leaf_alloc ENGINE=InnoDB"},
		"Aria":                     {alter: "ENGINE=Aria", sentinel: segment.ErrStore, says: "ALTER TABLE leaf_alloc ENGINE=InnoDB"},
		"MEMORY":                   {alter: "ENGINE=MEMORY", sentinel: segment.ErrStore, says: "ALTER TABLE leaf_alloc ENGINE=InnoDB"},
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
			r, err := storetest.Fetch(t.Context(), store, "order", 0, 0)
			if c.hi > 0 {
				require.NoError(t, err)
				require.Equal(t, segment.Range{Lo: 1, Hi: c.hi}, r)
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
