package segment_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // reaches the table behind the store's back

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
)

// javaTable is the table as the Java Leaf's script makes it.
const javaTable = "CREATE TABLE `leaf_alloc` (" +
	"`biz_tag` varchar(128) NOT NULL DEFAULT '', `max_id` bigint(20) NOT NULL DEFAULT '1', `step` int(11) NOT NULL, " +
	"`description` varchar(256) DEFAULT NULL, " +
	"`update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, " +
	"PRIMARY KEY (`biz_tag`)) ENGINE=InnoDB"

// database is a real table, and more stores on it, one for each daemon.
type database struct {
	open func(t *testing.T) *sqlstore.Store
	db   *sql.DB // for other clients and operators
}

func (d database) store(t *testing.T) *sqlstore.Store {
	t.Helper()
	s := d.open(t)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func (d database) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := d.db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
}

func (d database) maxID(t *testing.T, tag string) (id int64) {
	t.Helper()
	row := d.db.QueryRowContext(t.Context(), "SELECT max_id FROM leaf_alloc WHERE biz_tag = ?", tag)
	require.NoError(t, row.Scan(&id))
	return id
}

// plainFetch is what another client of the table does.
func (d database) plainFetch(ctx context.Context, tag string) (lo, hi int64, err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, "UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = ?", tag); err != nil {
		return 0, 0, err
	}
	var step int64
	row := tx.QueryRowContext(ctx, "SELECT max_id, step FROM leaf_alloc WHERE biz_tag = ?", tag)
	if err := row.Scan(&hi, &step); err != nil {
		return 0, 0, err
	}
	return hi - step, hi, tx.Commit()
}

func onMariaDB(t *testing.T, server *mariadbtest.Server) database {
	t.Helper()
	name := server.NewDatabase(t)
	d := database{
		open: func(t *testing.T) *sqlstore.Store {
			t.Helper()
			s, err := sqlstore.Open(sqlstore.Config{DSN: server.DSN(name)})
			require.NoError(t, err)
			return s
		},
		db: server.DB(t, name),
	}
	d.exec(t, javaTable)
	return d
}

func onSQLite(t *testing.T) database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "segments.db")
	open := func(t *testing.T) *sqlstore.Store {
		t.Helper()
		s, err := sqlstore.OpenSQLite(path)
		require.NoError(t, err)
		return s
	}
	require.NoError(t, open(t).Close()) // makes the file
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(30000)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return database{open: open, db: db}
}

// onEach runs test on both databases.
func onEach(t *testing.T, test func(t *testing.T, d database)) {
	t.Helper()
	t.Run("MariaDB", func(t *testing.T) { test(t, onMariaDB(t, mariadbtest.Shared(t))) })
	t.Run("SQLite", func(t *testing.T) { test(t, onSQLite(t)) })
}

func openMarks(t *testing.T, dir string) *sqlstore.HighWater {
	t.Helper()
	marks, err := sqlstore.OpenHighWater(filepath.Join(dir, "marks.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, marks.Close()) })
	return marks
}

// serve starts a service on d with a data directory of its own.
func serve(t *testing.T, d database, cfg segment.Config) *segment.Service {
	t.Helper()
	cfg.Store, cfg.HighWater = d.store(t), openMarks(t, t.TempDir())
	return start(t, cfg)
}

func TestThousandCallersOnStep100OnRealDatabases(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		d.exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 100)")
		requireUnique(t, 1000, 10, lookup(t, serve(t, d, segment.Config{}), "order"))
	})
}

func TestTwoDaemonsAndAPlainClient(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		d.exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 20)")
		check := &checker{seen: make(map[string]map[int64]string)}
		var wg sync.WaitGroup
		for i := range 2 {
			tag := lookup(t, serve(t, d, segment.Config{MaxStep: 100}), "order")
			for range 4 {
				wg.Go(func() {
					dst := make([]int64, 7)
					for range 200 {
						if err := tag.NextN(t.Context(), dst); err != nil {
							t.Error(err)
							return
						}
						check.add(fmt.Sprintf("daemon %d", i), "order", dst...)
					}
				})
			}
		}
		wg.Go(func() {
			for range 100 {
				lo, hi, err := d.plainFetch(t.Context(), "order")
				if err != nil {
					t.Error(err)
					return
				}
				for id := lo; id < hi; id++ {
					check.add("plain client", "order", id)
				}
			}
		})
		wg.Wait()
		require.Empty(t, check.found())
		require.EqualValues(t, 2*4*200*7+100*20, check.count.Load())
	})
}

func TestSetBackByHandOnRealDatabases(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		d.exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 100), ('other', 1, 100)")
		dir := t.TempDir()
		svc := newService(t, segment.Config{Store: d.store(t), HighWater: openMarks(t, dir), Wait: patience})
		stop := run(t, svc)
		eventually(t, svc.Loaded, "loaded")
		tag := lookup(t, svc, "order")
		require.EqualValues(t, 1, next(t, tag))
		truth := d.maxID(t, "order")

		d.exec(t, "UPDATE leaf_alloc SET max_id = 50 WHERE biz_tag = 'order'")
		last := drain(t, tag)
		require.Equal(t, truth-1, last)
		eventually(t, func() bool {
			_, err := tag.Next(t.Context())
			return err != nil && troubled(svc, segment.ErrRegressed, "order")
		}, "refused")
		require.EqualValues(t, 50, d.maxID(t, "order"), "the row is not moved")
		require.EqualValues(t, 1, next(t, lookup(t, svc, "other")))

		// A restart remembers: marks were recorded before the IDs were used.
		stop()
		svc = start(t, segment.Config{Store: d.store(t), HighWater: openMarks(t, dir)})
		tag = lookup(t, svc, "order")
		_, err := tag.Next(t.Context())
		require.ErrorIs(t, err, segment.ErrUnavailable)
		require.ErrorIs(t, err, segment.ErrRegressed)
		require.EqualValues(t, 50, d.maxID(t, "order"))

		d.exec(t, "UPDATE leaf_alloc SET max_id = ? WHERE biz_tag = 'order'", truth)
		eventuallyServes(t, tag)
		require.Greater(t, next(t, tag), last)
	})
}

func TestSpoiltStepsOnRealDatabases(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		d.exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 0), "+
			"('minus', 1, -5), ('end', 9223372036854775000, 1000), ('fine', 1, 10)")
		svc := serve(t, d, segment.Config{})
		for _, name := range []string{"order", "minus", "end"} {
			before := d.maxID(t, name)
			_, err := lookup(t, svc, name).Next(t.Context())
			require.ErrorIs(t, err, segment.ErrUnavailable)
			require.ErrorIs(t, err, segment.ErrBadRow)
			require.Equal(t, before, d.maxID(t, name))
		}
		require.EqualValues(t, 1, next(t, lookup(t, svc, "fine")))
		d.exec(t, "UPDATE leaf_alloc SET step = 10")
		for _, name := range []string{"order", "minus", "end"} {
			eventuallyServes(t, lookup(t, svc, name))
		}
	})
}

func TestMariaDBKilledHungAndBack(t *testing.T) {
	server := mariadbtest.Shared(t)
	d := onMariaDB(t, server)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		d.exec(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES (?, 1, 100)", name)
	}
	rec := &recorder{}
	svc := serve(t, d, segment.Config{Wait: 200 * time.Millisecond, Refresh: 50 * time.Millisecond, FetchTimeout: segment.DefaultFetchTimeout, Notify: rec.notify})
	check := &checker{seen: make(map[string]map[int64]string)}
	take := func(name string) error {
		dst := make([]int64, 10)
		err := lookup(t, svc, name).NextN(t.Context(), dst)
		if err == nil {
			check.add("daemon", name, dst...)
		}
		return err
	}
	for _, outage := range []struct {
		name     string
		down, up func(testing.TB)
	}{
		{"killed", server.Kill, server.Restart},
		{"hung", server.Pause, server.Resume},
	} {
		for _, name := range names {
			eventually(t, func() bool { return take(name) == nil && status(t, svc, name).Next.Ready }, "served")
		}
		outage.down(t)
		for _, name := range names {
			require.NoError(t, take(name), "memory serves on")
			eventually(t, func() bool { return take(name) != nil }, "memory used up")
		}
		for _, name := range names { // the fetches of all tags fail at the same time
			eventually(t, func() bool { return status(t, svc, name).LastError != nil }, "failed")
		}
		outage.up(t)
		for _, name := range names {
			eventually(t, func() bool { return take(name) == nil }, "back after being "+outage.name)
		}
		eventually(t, func() bool { return !troubled(svc, segment.ErrStore, "") }, "over")
	}
	require.Empty(t, check.found())
}
