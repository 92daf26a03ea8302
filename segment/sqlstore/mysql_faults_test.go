package sqlstore_test

import (
	"context"
	"database/sql"
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
					r, err := store.Fetch(ctx, "leaf-segment-test", 0, 0)
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

// awaitRanges waits for n more ranges, awaitFailures for n more failures.
func (f *fetcher) awaitRanges(t testing.TB, n int) {
	t.Helper()
	before, _ := f.counts()
	require.Eventually(t, func() bool { now, _ := f.counts(); return now >= before+n }, patience, 5*time.Millisecond)
}

func (f *fetcher) awaitFailures(t testing.TB, n int) {
	t.Helper()
	_, before := f.counts()
	require.Eventually(t, func() bool { _, now := f.counts(); return now >= before+n }, patience, 5*time.Millisecond)
}

// TestMySQLServerFaults takes one server through a crash, a hang and a stop
// while two daemons fetch with the time-outs that a daemon has.
func TestMySQLServerFaults(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, javaScript, "")
	f := startFetcher(t, openMySQL(t, server.DSN(database)), openMySQL(t, server.DSN(database)))
	f.awaitRanges(t, 100)
	for range 2 {
		server.Kill(t)
		f.awaitFailures(t, 10)
		server.Restart(t)
		f.awaitRanges(t, 100)
	}
	server.Pause(t)
	f.awaitFailures(t, 10) // every fetch comes back, though nothing answers
	server.Resume(t)
	f.awaitRanges(t, 100)
	server.Stop(t)
	f.awaitFailures(t, 10)
	server.Restart(t)
	f.awaitRanges(t, 100)
	f.end()
	requireDisjoint(t, f.ranges)
	require.GreaterOrEqual(t, maxIDOf(t, db, "leaf-segment-test"), f.ranges[len(f.ranges)-1].Hi,
		"what was given out is in the table")
}

// awaitFetch fetches until it works: with the time-outs that a daemon has, or shorter ones,
// a busy machine may fail a fetch.
func awaitFetch(t testing.TB, store *sqlstore.Store) (r segment.Range) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		r, err = store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
		return err == nil
	}, patience, 10*time.Millisecond)
	return r
}

// TestMySQLHung: nothing answers, and a fetch ends with its context; without an
// end of the context, by the time-outs.
func TestMySQLHung(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, javaScript, "")
	dsn := server.DSN(database) + "?timeout=200ms&readTimeout=200ms&writeTimeout=200ms"
	warm, cold := openMySQL(t, dsn), openMySQL(t, dsn)
	awaitFetch(t, warm)
	server.Pause(t)
	t.Run("meanwhile", func(t *testing.T) {
		for name, store := range map[string]*sqlstore.Store{"with a connection": warm, "without a connection": cold} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				_, err := store.Fetch(within(t, 100*time.Millisecond), "leaf-segment-test", 0, 0)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				_, err = store.Fetch(t.Context(), "leaf-segment-test", 0, 0)
				require.Error(t, err)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				if name == "with a connection" {
					require.ErrorContains(t, err, "no answer within its readTimeout")
				}
				require.Error(t, storetest.Each(t.Context(), store, func([]byte, int64, int64) error { return nil }))
				_, err = store.List(t.Context())
				require.Error(t, err)
				_, err = store.Delete(t.Context(), "leaf-segment-test", nil)
				require.Error(t, err)
			})
		}
	})
	server.Resume(t)
	awaitFetch(t, warm)
	awaitFetch(t, cold)
	require.GreaterOrEqual(t, maxIDOf(t, db, "leaf-segment-test"), int64(6001))
}

// TestMySQLNotThereYet: the daemon starts before its database.
func TestMySQLNotThereYet(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, _ := newTable(t, server, ourScript, "")
	server.Stop(t)
	store := openMySQL(t, server.DSN(database)+generous)
	_, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
	require.ErrorContains(t, err, server.Addr())
	server.Restart(t)
	r, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
	require.NoError(t, err)
	require.Equal(t, segment.Range{Lo: 1, Hi: 2001, Step: 2000}, r)
}

// TestMySQLReadOnly: the server became a replica, and the pool still leads there. An
// account that may write all the same gets nothing either, with any
// table on the replica; over a new connection it goes on.
func TestMySQLReadOnly(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, ourScript, "")
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
			first, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
			require.NoError(t, err)
			before, rows := connections(t, db, database), snapshot(t, db)
			execSQL(t, db, "SET GLOBAL "+c.variable+" = 1")
			defer execSQL(t, db, "SET GLOBAL read_only = 0")
			step := int64(7)
			for call, do := range map[string]func() error{
				"fetch":                func() error { _, err := store.Fetch(t.Context(), "leaf-segment-test", 0, 0); return err },
				"fetch without a row":  func() error { _, err := store.Fetch(t.Context(), "not there", 0, 0); return err },
				"update":               func() error { _, err := store.Update(t.Context(), "leaf-segment-test", &step, nil); return err },
				"update without a row": func() error { _, err := store.Update(t.Context(), "not there", &step, nil); return err },
				"delete":               func() error { _, err := store.Delete(t.Context(), "leaf-segment-test", nil); return err },
				"create":               func() error { return store.Create(t.Context(), segment.Row{Tag: "new", MaxID: 1, Step: 1}) },
			} {
				err := do()
				require.ErrorIs(t, err, segment.ErrReadOnly, call)
				require.ErrorContains(t, err, "takes no writes")
				require.ErrorContains(t, err, server.Addr())
				require.NotErrorIs(t, err, segment.ErrUnknownTag)
			}
			require.Equal(t, rows, snapshot(t, db))
			requireGone(t, db, database, before)
			execSQL(t, db, "SET GLOBAL read_only = 0")
			second, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
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

// TestMySQLFailoverErrors: with these answers a connection leads nowhere any more.
// Those behind the last ones are of the row, and the connection stays.
func TestMySQLFailoverErrors(t *testing.T) {
	server := mariadbtest.Shared(t)
	for number, gone := range map[int]bool{
		1047: true, 1053: true, 1290: true, 1836: true, 1874: true, 1927: true, 3032: true, 3100: true, 3101: true,
		1205: false, 1213: false, 1644: false,
	} {
		t.Run(strconv.Itoa(number), func(t *testing.T) {
			database, db := newTable(t, server, ourScript, "")
			db.SetMaxOpenConns(1)
			store := openMySQL(t, server.DSN(database)+generous)
			_, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
			require.NoError(t, err)
			before := connections(t, db, database)
			require.Len(t, before, 1)
			execSQL(t, db, "CREATE TRIGGER fails BEFORE UPDATE ON leaf_alloc FOR EACH ROW SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = "+strconv.Itoa(number))
			_, err = store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
			require.ErrorContains(t, err, "Error "+strconv.Itoa(number))
			if gone {
				requireGone(t, db, database, before)
			} else {
				require.Equal(t, before, connections(t, db, database))
			}
			require.NoError(t, store.Close())
			requireGone(t, db, database, connections(t, db, database))

			store = openMySQL(t, server.DSN(database)+generous)
			_, err = store.List(within(t, patience))
			require.NoError(t, err)
			execSQL(t, db, "DROP TRIGGER fails; CREATE FUNCTION fails() RETURNS INT DETERMINISTIC BEGIN "+
				"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = "+strconv.Itoa(number)+"; RETURN 1; END; "+
				"RENAME TABLE leaf_alloc TO t; CREATE VIEW leaf_alloc AS SELECT biz_tag, max_id, step, fails() AS description, update_time FROM t")
			before = connections(t, db, database)
			require.Len(t, before, 1)
			_, err = store.List(within(t, patience))
			require.ErrorContains(t, err, "Error "+strconv.Itoa(number))
			if gone {
				requireGone(t, db, database, before)
			} else {
				require.Equal(t, before, connections(t, db, database))
			}
		})
	}
}

// TestMySQLSessionsArePinned: what correctness needs holds even if the server and the DSN
// say otherwise. Without autocommit, a reader's connection would stay in one transaction.
func TestMySQLSessionsArePinned(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, ourScript, "")
	execSQL(t, db, "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET GLOBAL autocommit = 0; SET GLOBAL innodb_lock_wait_timeout = 50")
	defer execSQL(t, db, "SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET GLOBAL autocommit = 1; COMMIT")
	store := openMySQL(t, server.DSN(database)+"?autocommit=0&sql_select_limit=1&readTimeout=30s")
	isolation := "@@tx_isolation"
	if server.MySQL() {
		isolation = "@@transaction_isolation"
	}
	// The table shows the session that looks at it: any other would show its own.
	execSQL(t, db, "CREATE FUNCTION shown() RETURNS VARCHAR(99) NOT DETERMINISTIC NO SQL "+
		"RETURN CONCAT_WS(' ', @@autocommit + 0, "+isolation+", @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@sql_select_limit); RENAME TABLE leaf_alloc TO t; "+
		"CREATE VIEW leaf_alloc AS SELECT shown() AS biz_tag, 1 AS max_id, 1 AS step, '' AS description, NOW() AS update_time")
	require.NoError(t, storetest.Each(within(t, patience), store, func(tag []byte, _, _ int64) error {
		require.Equal(t, "1 READ-COMMITTED 1 1 18446744073709551615", string(tag))
		return nil
	}))
	rows, err := store.List(within(t, patience))
	require.NoError(t, err)
	require.Equal(t, "1 READ-COMMITTED 1 1 18446744073709551615", rows[0].Tag)
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
		"no table":       {dsn: server.DSN(empty), says: "create it with deploy/leaf_alloc.sql"},
		"no database":    {dsn: server.DSN("nowhere"), says: "create it with deploy/leaf_alloc.sql"},
		"wrong password": {dsn: reader + ":wr0ng@tcp(" + server.Addr() + ")/" + withTable, says: "check user, password and database"},
		"no such user":   {dsn: "missing:wr0ng@tcp(" + server.Addr() + ")/" + withTable, says: "check user, password and database"},
		"may not write":  {dsn: reader + ":s3cret@tcp(" + server.Addr() + ")/" + withTable, says: "leafd needs SELECT and UPDATE"},
	} {
		t.Run(name, func(t *testing.T) {
			store := openMySQL(t, c.dsn+generous)
			_, err := store.Fetch(within(t, patience), "leaf-segment-test", 0, 0)
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, server.Addr())
			require.NotContains(t, err.Error(), "s3cret")
			require.NotContains(t, err.Error(), "wr0ng")
			for _, sentinel := range []error{segment.ErrUnknownTag, segment.ErrBadRow, segment.ErrRegressed} {
				require.NotErrorIs(t, err, sentinel)
			}
		})
	}
	require.EqualValues(t, 1, maxIDOf(t, tableDB, "leaf-segment-test"))
}

// TestMySQLOneTagLocksNoOther: a transaction on one row, held open, keeps no
// fetch of another tag waiting, as it would if the rows were searched for and
// not found by the primary key.
func TestMySQLOneTagLocksNoOther(t *testing.T) {
	for name, c := range map[string]struct{ script, before string }{
		"our table":              {script: ourScript},
		"Java's table in latin1": {script: javaScript, before: "ALTER DATABASE CHARACTER SET latin1; "},
		"Java's table in utf8mb4_ci": {
			script: javaScript, before: "ALTER DATABASE CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci; ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for a second, the shortest that the server knows
			server := mariadbtest.Shared(t)
			database, db := newTable(t, server, c.script, c.before)
			execSQL(t, db, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('a', 1, 10), ('b', 1, 10), ('c', 1, 10)")
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback()) }()
			_, err = tx.ExecContext(t.Context(), "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = 'b'")
			require.NoError(t, err)
			store := openMySQL(t, server.DSN(database)+generous)
			for _, tag := range []string{"a", "c"} {
				_, err := store.Fetch(within(t, patience), tag, 10, 0)
				require.NoError(t, err)
			}
			// With the server's own bound on the wait this one is refused.
			store = openMySQL(t, server.DSN(database)+"?readTimeout=30s&innodb_lock_wait_timeout=1")
			_, err = store.Fetch(within(t, patience), "b", 10, 0)
			require.ErrorContains(t, err, "nothing was taken")
		})
	}
}

// TestPeopleKeepNoFetchWaiting: all the connections for lists and changes hang, and ranges
// are fetched and tags read beside them.
func TestPeopleKeepNoFetchWaiting(t *testing.T) {
	server := mariadbtest.Shared(t)
	database, db := newTable(t, server, ourScript, "")
	execSQL(t, db, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('held', 1, 10)")
	store := openMySQL(t, server.DSN(database)+generous)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE leaf_alloc SET step = 11 WHERE biz_tag = 'held'")
	require.NoError(t, err)
	var people sync.WaitGroup
	for range 20 {
		people.Go(func() {
			if _, err := store.Update(within(t, patience), "held", nil, nil); err != nil {
				t.Errorf("update: %v", err)
			}
			if _, err := store.List(within(t, patience)); err != nil {
				t.Errorf("list: %v", err)
			}
		})
	}
	require.Eventually(t, func() bool { return len(connections(t, db, database)) == 3 }, patience, time.Millisecond, "that of tx, and two of people")
	for range 100 { // within less than people wait, for the lock
		_, err := store.Fetch(within(t, 15*time.Second), "leaf-segment-test", 0, 0)
		require.NoError(t, err)
		require.NoError(t, storetest.Each(within(t, 15*time.Second), store, func([]byte, int64, int64) error { return nil }))
	}
	require.NoError(t, tx.Commit())
	people.Wait()
}
