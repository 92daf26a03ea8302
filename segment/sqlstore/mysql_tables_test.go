package sqlstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

// TestMySQLTables takes each of the tables, as it is, through every path, by a user who may do no more than leafd needs.
func TestMySQLTables(t *testing.T) {
	for name, c := range tables {
		t.Run(name, func(t *testing.T) {
			server, database, db := sharedTable(t, c.script, c.before)
			execSQL(t, db, "DELETE FROM leaf_alloc; "+c.after)
			user := "user_" + database
			execSQL(t, db, "CREATE USER "+user+"@'127.0.0.1' IDENTIFIED BY 's3cret'; GRANT SELECT, INSERT, UPDATE, DELETE ON leaf_alloc TO "+user+"@'127.0.0.1'")
			cfg := configOf(user + ":s3cret@tcp(" + server.Addr() + ")/" + database + generous)
			tap := newTap(t, server)
			store := openMySQL(t, strings.Replace(cfg.DSN, server.Addr(), tap.Address, 1))
			for _, tag := range []string{"order", "user", "zebra"} {
				require.NoError(t, store.Create(within(t, patience), segment.Row{Tag: tag, MaxID: 1, Step: 10, Description: "of " + tag}, nil))
			}
			_, err := storetest.Fetch(within(t, patience), store, "order", 0, 0)
			require.NoError(t, err)
			rows, err := store.Find(within(t, patience), []string{"order", "📦", "user"})
			require.NoError(t, err)
			require.ElementsMatch(t, []segment.Row{{Tag: "order", MaxID: 11, Step: 10}, {Tag: "user", MaxID: 1, Step: 10}}, rows)
			tap.take()
			text, step := "changed", int64(20)
			_, err = store.Update(within(t, patience), "user", segment.Change{Description: &text, Step: &step}, nil)
			require.NoError(t, err)
			_, err = store.Delete(within(t, patience), "zebra", nil)
			require.NoError(t, err)
			row, err := store.Get(within(t, patience), "user")
			require.NoError(t, err)
			require.Equal(t, []any{"changed", int64(20), c.script == articleIDScript}, []any{row.Description, row.Step, row.UpdateTime.IsZero()})
			rows, err = store.Page(within(t, patience), "order", "", 10)
			require.NoError(t, err)
			require.Equal(t, []segment.Row{row}, rows)
			batch, err := store.Begin(within(t, patience), []string{"order", "📦", "user"})
			require.NoError(t, err)
			require.Len(t, batch.Rows(), 2)
			require.Equal(t, []string{"📦"}, batch.Skipped())
			require.NoError(t, batch.Move(t.Context(), []segment.Move{{Tag: "order", From: 11, To: 21}, {Tag: "user", From: 1, To: 21}}))
			require.NoError(t, batch.Commit(t.Context()))
			_, err = store.Find(within(t, patience), []string{"order", "📦", "user"})
			require.NoError(t, err)

			inspector, err := sqlstore.OpenInspector(cfg)
			require.NoError(t, err)
			defer inspector.Close() //nolint:errcheck // it was only looked at
			facts, err := inspector.Table(within(t, patience))
			require.NoError(t, err)
			require.True(t, facts.Transactional && !facts.View)
			require.Equal(t, c.script != articleIDScript || c.after != "", facts.UniqueTag)
			fetch, manage, err := inspector.Privileges(within(t, patience))
			require.NoError(t, err)
			require.NoError(t, fetch)
			require.NoError(t, manage)
			tags, err := inspector.Tags(within(t, patience))
			require.NoError(t, err)
			require.ElementsMatch(t, []sqlstore.TagFacts{{Tag: "order", MaxID: 21, Step: 10}, {Tag: "user", MaxID: 21, Step: 20}}, tags)

			requireKeyed(t, server, database, tap.take())
		})
	}
}

// requireKeyed fills the table, and checks that each statement of asked that names a tag finds its rows by the key.
func requireKeyed(t *testing.T, server *mariadbtest.Server, database string, asked []string) {
	t.Helper()
	db := server.DB(t, database)
	columns := "biz_tag, max_id, step"
	var dated int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME = 'create_time'").Scan(&dated))
	value := ""
	if dated > 0 {
		columns, value = columns+", create_time", ", NOW()"
	}
	execSQL(t, db, "INSERT INTO leaf_alloc ("+columns+") SELECT CONCAT('tag-', n.a, '-', m.a), 1, 1"+value+" FROM "+
		"(SELECT ORDINAL_POSITION AS a FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'user' LIMIT 40) n, "+
		"(SELECT ORDINAL_POSITION AS a FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'mysql' AND TABLE_NAME = 'user' LIMIT 40) m; ANALYZE TABLE leaf_alloc")
	explained := 0
	for _, statement := range asked {
		if !strings.Contains(statement, " WHERE biz_tag IN ") {
			continue
		}
		explained++
		rows, err := db.QueryContext(t.Context(), "EXPLAIN FORMAT=TRADITIONAL "+statement)
		require.NoError(t, err)
		defer rows.Close()
		names, err := rows.Columns()
		require.NoError(t, err)
		for rows.Next() {
			values, targets, plan := make([]any, len(names)), make([]any, len(names)), map[string]string{}
			for i := range values {
				targets[i] = &values[i]
			}
			require.NoError(t, rows.Scan(targets...))
			for i, name := range names {
				if text, ok := values[i].([]byte); ok {
					plan[name] = string(text)
				}
			}
			if strings.Contains(plan["Extra"], "const table") {
				continue // the key has told that there is no such row
			}
			require.Contains(t, []string{"PRIMARY", "biz_tag"}, plan["key"], "%s\n%v", statement, plan)
			require.Contains(t, []string{"range", "ref", "const"}, plan["type"], "%s\n%v", statement, plan)
		}
		require.NoError(t, rows.Err())
	}
	require.GreaterOrEqual(t, explained, 7)
}

// TestMySQLWithoutSkipLocked: a server that doesn't know SKIP LOCKED is asked for it once, and then for one tag of several.
func TestMySQLWithoutSkipLocked(t *testing.T) {
	server, database, db := sharedTable(t, ourScript, "")
	execSQL(t, db, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 10), ('b', 1, 10)")
	tap := newTap(t, server)
	tap.replace = strings.NewReplacer("SKIP LOCKED", "SKIP UNKNOWN")
	store := openMySQL(t, tap.dsn(server, database))
	for i := range 3 {
		tx, err := store.Begin(within(t, patience), []string{"b", "a", "c"})
		require.NoError(t, err)
		require.Len(t, tx.Rows(), 1)
		require.Equal(t, "a", tx.Rows()[0].Tag)
		require.Equal(t, []string{"b", "c"}, tx.Skipped())
		tx.Rollback(t.Context())
		if i > 0 {
			requireVerbs(t, tap.take(), "SELECT biz_tag", "ROLLBACK")
		}
		tap.take()
	}
}

// TestMySQLTableChanges: the table is altered, and gone, while a store is open.
func TestMySQLTableChanges(t *testing.T) {
	server, database, db := sharedTable(t, articleScript, wide)
	store := openMySQL(t, server.DSN(database)+generous)
	text := "text"
	require.NoError(t, store.Create(within(t, patience), segment.Row{Tag: "order", MaxID: 1, Step: 10, Description: text}, nil))
	execSQL(t, db, "ALTER TABLE leaf_alloc CHANGE `desc` description varchar(256)")
	_, err := store.Get(within(t, patience), "order")
	require.ErrorIs(t, err, segment.ErrStore)
	row, err := store.Get(within(t, patience), "order")
	require.NoError(t, err)
	require.Equal(t, text, row.Description)
	execSQL(t, db, "ALTER TABLE leaf_alloc DROP COLUMN description, DROP COLUMN update_time")
	_, err = store.Get(within(t, patience), "order")
	require.ErrorIs(t, err, segment.ErrStore)
	_, err = store.Update(within(t, patience), "order", segment.Change{Description: &text}, nil)
	require.ErrorIs(t, err, segment.ErrBadRow)
	require.ErrorIs(t, store.Create(within(t, patience), segment.Row{Tag: "new", MaxID: 1, Step: 1, Description: text}, nil), segment.ErrBadRow)
	require.NoError(t, store.Create(within(t, patience), segment.Row{Tag: "new", MaxID: 1, Step: 1}, nil))
	_, err = storetest.Fetch(within(t, patience), store, "order", 1, 0)
	require.NoError(t, err)

	execSQL(t, db, "RENAME TABLE leaf_alloc TO away")
	for range 2 {
		_, err = store.Find(within(t, patience), []string{"order"})
		require.ErrorIs(t, err, sqlstore.ErrNoTable)
		require.ErrorIs(t, err, segment.ErrStore)
		_, err = storetest.Fetch(within(t, patience), store, "order", 1, 0)
		require.ErrorIs(t, err, sqlstore.ErrNoTable)
		require.NotErrorIs(t, err, segment.ErrUnknownTag)
	}
	execSQL(t, db, "RENAME TABLE away TO leaf_alloc")
	r, err := storetest.Fetch(within(t, patience), store, "order", 1, 0)
	require.NoError(t, err)
	require.EqualValues(t, 11, r.Lo)
}
