package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

// patience bounds what should take milliseconds, on a machine that is busy.
const patience = 60 * time.Second

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// requireDisjoint checks that no ID is in two ranges; gaps are in order.
func requireDisjoint(t testing.TB, ranges []segment.Range) {
	t.Helper()
	slices.SortFunc(ranges, func(a, b segment.Range) int {
		if a.Lo < b.Lo {
			return -1
		}
		return 1
	})
	for i := 1; i < len(ranges); i++ {
		require.GreaterOrEqual(t, ranges[i].Lo, ranges[i-1].Hi, "%v and %v overlap", ranges[i-1], ranges[i])
	}
}

// fetcher fetches in the background from several handles until it is stopped.
type fetcher struct {
	mu       sync.Mutex
	ranges   []segment.Range // mu protects
	failures int             // mu protects
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

func startFetcher(t testing.TB, stores ...*sqlstore.Store) *fetcher {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fetcher{stop: cancel}
	t.Cleanup(f.end)
	for _, store := range stores {
		for range 4 {
			f.wg.Go(func() {
				for ctx.Err() == nil {
					r, err := storetest.Fetch(ctx, store, "leaf-segment-test", 0, 0)
					f.mu.Lock()
					if err == nil {
						f.ranges = append(f.ranges, r)
					} else {
						f.failures++
					}
					f.mu.Unlock()
				}
			})
		}
	}
	return f
}

func (f *fetcher) end() { f.stop(); f.wg.Wait() }

func (f *fetcher) counts() (ranges, failures int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ranges), f.failures
}

// awaitRanges waits for n more ranges.
func (f *fetcher) awaitRanges(t testing.TB, n int) {
	t.Helper()
	before, _ := f.counts()
	require.Eventually(t, func() bool { now, _ := f.counts(); return now >= before+n }, patience, 5*time.Millisecond)
}

// awaitFetch fetches until it works: with the time-outs that a daemon has, or shorter ones,
// a busy machine may fail a fetch.
func awaitFetch(t testing.TB, store *sqlstore.Store) (r segment.Range) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		r, err = storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
		return err == nil
	}, patience, 10*time.Millisecond)
	return r
}

// calls are what a store is asked beside fetches.
func calls(t testing.TB, store *sqlstore.Store) map[string]func() error {
	t.Helper()
	ctx, step := within(t, patience), int64(7)
	return map[string]func() error{
		"find":   func() error { _, err := store.Find(ctx, []string{"leaf-segment-test"}); return err },
		"page":   func() error { _, err := store.Page(ctx, "", "", 10); return err },
		"get":    func() error { _, err := store.Get(ctx, "leaf-segment-test"); return err },
		"create": func() error { return store.Create(ctx, segment.Row{Tag: "new", MaxID: 1, Step: 1}, nil) },
		"update": func() error {
			_, err := store.Update(ctx, "leaf-segment-test", segment.Change{Step: &step}, nil)
			return err
		},
		"delete": func() error { _, err := store.Delete(ctx, "leaf-segment-test", nil); return err },
	}
}

// TestMySQLHung: nothing answers, and a fetch ends with its context; without an
// end of the context, by the time-outs.
func TestMySQLHung(t *testing.T) {
	server, database, db := sharedTable(t, javaScript, "")
	dsn := server.DSN(database) + "?timeout=200ms&readTimeout=200ms&writeTimeout=200ms"
	warm, cold := openMySQL(t, dsn), openMySQL(t, dsn)
	awaitFetch(t, warm)
	server.Pause(t)
	t.Run("meanwhile", func(t *testing.T) {
		for name, store := range map[string]*sqlstore.Store{"with a connection": warm, "without a connection": cold} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				_, err := storetest.Fetch(within(t, 100*time.Millisecond), store, "leaf-segment-test", 0, 0)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, segment.ErrStore)
				_, err = storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0)
				require.ErrorIs(t, err, segment.ErrStore)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				if name == "with a connection" {
					require.ErrorContains(t, err, "no answer within its readTimeout")
				}
				for _, call := range calls(t, store) {
					require.ErrorIs(t, call(), segment.ErrStore)
				}
			})
		}
	})
	server.Resume(t)
	awaitFetch(t, warm)
	awaitFetch(t, cold)
	require.GreaterOrEqual(t, maxIDOf(t, db, "leaf-segment-test"), int64(6001))
}

// TestMySQLReadOnly: the server became a replica, and the pool still leads there. An
// account that may write all the same gets nothing either, with any
// table on the replica; over a new connection it goes on.
func TestMySQLReadOnly(t *testing.T) {
	server, database, db := sharedTable(t, ourScript, "")
	db.SetMaxOpenConns(1)
	execSQL(t, db, "CREATE USER IF NOT EXISTS 'leafd'@'127.0.0.1' IDENTIFIED BY 's3cret'; "+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON leaf_alloc TO 'leafd'@'127.0.0.1'")
	cases := map[string]struct{ dsn, variable string }{
		"may not write": {"leafd:s3cret@tcp(" + server.Addr() + ")/" + database, "read_only"},
		"may write":     {server.DSN(database), "read_only"},
	}
	if server.MySQL() { // MariaDB has no such variable
		cases["may not even with SUPER"] = struct{ dsn, variable string }{server.DSN(database), "super_read_only"}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			store := openMySQL(t, c.dsn+generous)
			first, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
			require.NoError(t, err)
			before, rows := connections(t, db, database), snapshot(t, db)
			execSQL(t, db, "SET GLOBAL "+c.variable+" = 1")
			defer execSQL(t, db, "SET GLOBAL read_only = 0")
			asked := calls(t, store)
			for _, read := range []string{"find", "page", "get"} {
				require.NoError(t, asked[read](), "of a single host lists may be read")
				delete(asked, read)
			}
			asked["fetch"] = func() error { _, err := storetest.Fetch(t.Context(), store, "leaf-segment-test", 0, 0); return err }
			asked["fetch without a row"] = func() error { _, err := storetest.Fetch(t.Context(), store, "not there", 0, 0); return err }
			asked["delete without a row"] = func() error { _, err := store.Delete(t.Context(), "not there", nil); return err }
			for call, do := range asked {
				err := do()
				require.ErrorIs(t, err, segment.ErrReadOnly, call)
				require.ErrorIs(t, err, segment.ErrStore, call)
				require.ErrorContains(t, err, "takes no writes")
				require.ErrorContains(t, err, server.Addr())
				require.NotErrorIs(t, err, segment.ErrUnknownTag)
			}
			require.Equal(t, rows, snapshot(t, db))
			requireGone(t, db, database, before)
			execSQL(t, db, "SET GLOBAL read_only = 0")
			second, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
			require.NoError(t, err)
			require.Equal(t, first.Hi, second.Lo)
		})
	}
}

// connections returns the IDs of the connections to database, but that of db, which has one.
func connections(t testing.TB, db *sql.DB, database string) (ids []int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = ? AND ID <> CONNECTION_ID()", database)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id int64
		require.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(t, rows.Err())
	return ids
}

// requireGone waits until none of the connections before is left.
func requireGone(t testing.TB, db *sql.DB, database string, before []int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, id := range connections(t, db, database) {
			if slices.Contains(before, id) {
				return false
			}
		}
		return true
	}, patience, time.Millisecond)
}

// TestMySQLAnswers: what the server answers, what it is to segment, and whether the connections lead nowhere any more.
func TestMySQLAnswers(t *testing.T) {
	server := mariadbtest.Shared(t)
	for number, c := range map[int]struct {
		is   error
		gone bool
	}{
		1047: {segment.ErrStore, true}, 1053: {segment.ErrStore, true}, 1927: {segment.ErrStore, true}, 3032: {segment.ErrStore, true},
		3100: {segment.ErrStore, true}, 3101: {segment.ErrStore, true},
		1290: {segment.ErrReadOnly, true}, 1836: {segment.ErrReadOnly, true}, 1874: {segment.ErrReadOnly, true},
		1030: {segment.ErrStore, false}, 1142: {segment.ErrStore, false}, 1146: {sqlstore.ErrNoTable, false},
		1205: {segment.ErrLocked, false}, 1213: {segment.ErrLocked, false}, 1264: {segment.ErrBadRow, false},
		1644: {nil, false}, 1317: {nil, false}, 4999: {nil, false},
	} {
		t.Run(strconv.Itoa(number), func(t *testing.T) {
			database, db := newTable(t, server, ourScript, "")
			db.SetMaxOpenConns(1)
			store := openMySQL(t, server.DSN(database)+generous)
			_, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
			require.NoError(t, err)
			before := connections(t, db, database)
			require.Len(t, before, 2, "one for fetches, one for the look at the table")
			execSQL(t, db, "CREATE TRIGGER fails BEFORE UPDATE ON leaf_alloc FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = "+strconv.Itoa(number))
			_, err = storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
			require.ErrorContains(t, err, "Error "+strconv.Itoa(number))
			for _, sentinel := range []error{segment.ErrUnknownTag, segment.ErrTagExists, segment.ErrLocked, segment.ErrBadRow, segment.ErrReadOnly, segment.ErrStore, sqlstore.ErrNoTable} {
				require.Equal(t, sentinel == c.is || sentinel == segment.ErrStore && (c.is == segment.ErrReadOnly || c.is == sqlstore.ErrNoTable), //nolint:errorlint // which one it is
					errors.Is(err, sentinel), "%v: %v", sentinel, err)
			}
			if c.gone {
				requireGone(t, db, database, before)
			} else {
				require.Contains(t, connections(t, db, database), before[1])
			}
			execSQL(t, db, "DROP TRIGGER fails")
			r, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
			require.NoError(t, err)
			require.EqualValues(t, 2001, r.Lo)
		})
	}
}

// TestMySQLSessionsArePinned: what correctness needs holds even if the server and the DSN
// say otherwise. With RELEASE each COMMIT would end its connection before it has answered, and without autocommit
// a reader's connection would stay in one transaction.
func TestMySQLSessionsArePinned(t *testing.T) {
	server, database, db := sharedTable(t, ourScript, "")
	execSQL(t, db, "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET GLOBAL autocommit = 0; SET GLOBAL innodb_lock_wait_timeout = 50; "+
		"SET GLOBAL completion_type = 2; SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES'")
	defer execSQL(t, db, "SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET GLOBAL autocommit = 1; SET GLOBAL completion_type = 0; SET GLOBAL sql_mode = DEFAULT; COMMIT")
	store := openMySQL(t, server.DSN(database)+"?autocommit=1&completion_type=2&sql_select_limit=1&readTimeout=30s&charset=latin1&Wait_Timeout=70")
	isolation := "@@tx_isolation"
	if server.MySQL() {
		isolation = "@@transaction_isolation"
	}
	// A trigger shows the session that fires it: any other would show its own.
	execSQL(t, db, "CREATE TABLE seen (what VARCHAR(200)); CREATE TRIGGER shows BEFORE UPDATE ON leaf_alloc FOR EACH ROW INSERT INTO seen VALUES ("+
		"CONCAT_WS(' ', @@autocommit + 0, "+isolation+", @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@wait_timeout, @@completion_type, @@character_set_results, @@sql_select_limit))")
	for range 5 {
		_, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
		require.NoError(t, err)
	}
	step := int64(9)
	_, err := store.Update(within(t, patience), "leaf-segment-test", segment.Change{Step: &step}, nil)
	require.NoError(t, err)
	var seen string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT GROUP_CONCAT(DISTINCT what) FROM seen").Scan(&seen))
	require.Equal(t, "0 READ-COMMITTED 1 1 3 NO_CHAIN utf8mb4 18446744073709551615", seen)
	for i := range 3 { // a reader sees what was committed last, and all rows
		require.NoError(t, store.Create(within(t, patience), segment.Row{Tag: strconv.Itoa(i), MaxID: 1, Step: 1}, nil))
		rows, err := store.Page(within(t, patience), "", "", 10)
		require.NoError(t, err)
		require.Len(t, rows, i+2)
	}
}

// TestMySQLSetUpWrong: the errors of a first start say what to do.
func TestMySQLSetUpWrong(t *testing.T) {
	server := mariadbtest.Shared(t)
	empty := server.NewDatabase(t)
	db := server.DB(t, empty)
	reader := "reader_" + empty // users are the server's, not a database's
	execSQL(t, db, "CREATE USER '"+reader+"'@'127.0.0.1' IDENTIFIED BY 's3cret'")
	withTable, tableDB := newTable(t, server, ourScript, "")
	execSQL(t, tableDB, "GRANT SELECT ON leaf_alloc TO '"+reader+"'@'127.0.0.1'")
	for name, c := range map[string]struct{ dsn, says string }{
		"no table":       {dsn: server.DSN(empty), says: "put it back with its rows"},
		"no database":    {dsn: server.DSN("nowhere"), says: "put it back with its rows"},
		"wrong password": {dsn: reader + ":wr0ng@tcp(" + server.Addr() + ")/" + withTable, says: "check user, password and database"},
		"no such user":   {dsn: "missing:wr0ng@tcp(" + server.Addr() + ")/" + withTable, says: "check user, password and database"},
		"may not write":  {dsn: reader + ":s3cret@tcp(" + server.Addr() + ")/" + withTable, says: "leafd needs SELECT and UPDATE"},
	} {
		t.Run(name, func(t *testing.T) {
			store := openMySQL(t, c.dsn+generous)
			_, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, server.Addr())
			require.NotContains(t, err.Error(), "s3cret")
			require.NotContains(t, err.Error(), "wr0ng")
			require.ErrorIs(t, err, segment.ErrStore)
			require.NotContains(t, err.Error(), "deploy/leaf_alloc.sql")
			require.Equal(t, name == "no table" || name == "no database", errors.Is(err, sqlstore.ErrNoTable))
			for _, sentinel := range []error{segment.ErrUnknownTag, segment.ErrBadRow} {
				require.NotErrorIs(t, err, sentinel)
			}
		})
	}
	require.EqualValues(t, 1, maxIDOf(t, tableDB, "leaf-segment-test"))
}

// TestPeopleKeepNoFetchWaiting: all the connections for lists and changes hang, and ranges
// are fetched and tags read beside them.
func TestPeopleKeepNoFetchWaiting(t *testing.T) {
	server, database, db := sharedTable(t, ourScript, "")
	execSQL(t, db, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('held', 1, 10)")
	store := openMySQL(t, server.DSN(database)+generous)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE leaf_alloc SET step = 11 WHERE biz_tag = 'held'")
	require.NoError(t, err)
	var people sync.WaitGroup
	for range 20 {
		people.Go(func() {
			if _, err := store.Update(within(t, patience), "held", segment.Change{}, nil); err != nil {
				t.Errorf("update: %v", err)
			}
			if _, err := store.Page(within(t, patience), "", "", 10); err != nil {
				t.Errorf("list: %v", err)
			}
		})
	}
	require.Eventually(t, func() bool { return len(connections(t, db, database)) >= 3 }, patience, time.Millisecond, "that of tx, and two of people")
	for range 100 { // within less than people wait, for the lock
		_, err := storetest.Fetch(within(t, 15*time.Second), store, "leaf-segment-test", 0, 0)
		require.NoError(t, err)
		_, err = store.Find(within(t, 15*time.Second), []string{"held"})
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
	people.Wait()
}
