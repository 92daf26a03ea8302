package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

// twoHosts returns two servers, the first with a table, and the DSN that names both.
func twoHosts(t *testing.T) (hosts [2]*mariadbtest.Server, dbs [2]*sql.DB, dsn string) {
	t.Helper()
	for i := range hosts {
		hosts[i] = mariadbtest.Start(t, fmt.Sprintf("--server-id=%d", i+1))
		execSQL(t, hosts[i].DB(t, ""), "CREATE DATABASE leaf")
		dbs[i] = hosts[i].DB(t, "leaf")
	}
	makeTable(t, dbs[0])
	return hosts, dbs, "root@tcp(" + hosts[0].Addr() + "," + hosts[1].Addr() + ")/leaf"
}

// makeTable makes our table in the database of db.
func makeTable(t *testing.T, db *sql.DB) {
	t.Helper()
	script, err := os.ReadFile(ourScript)
	require.NoError(t, err)
	execSQL(t, db, strings.Replace(string(script), "CREATE DATABASE IF NOT EXISTS leaf;", "", 1))
}

// switched fetches until a fetch succeeds, and returns its server.
func switched(t *testing.T, store *sqlstore.Store) (row segment.Row, server string) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond) // shorter than a host may take
		defer cancel()
		tx, err := store.Begin(ctx, []string{"leaf-segment-test"})
		if err != nil {
			return false
		}
		defer tx.Rollback(ctx)
		row, server = tx.Rows()[0], tx.Server()
		err = tx.Move(ctx, []segment.Move{{Tag: row.Tag, From: row.MaxID, To: row.MaxID + 10}})
		return err == nil && tx.Commit(ctx) == nil
	}, patience, 10*time.Millisecond)
	return row, server
}

// TestMySQLHosts: of two masters, here not of each other, that is used which can be written; a dead or a frozen one costs its
// time-out once, and not each connection.
func TestMySQLHosts(t *testing.T) {
	hosts, dbs, dsn := twoHosts(t)
	makeTable(t, dbs[1])
	execSQL(t, dbs[1], "UPDATE leaf_alloc SET max_id = 700; INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('of-the-second', 1, 1)")
	store := openMySQL(t, dsn)
	row, first := switched(t, store)
	require.EqualValues(t, 1, row.MaxID)

	execSQL(t, dbs[0], "SET GLOBAL read_only = 1")
	_, err := storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
	require.ErrorIs(t, err, segment.ErrReadOnly, "the connection that was there")
	row, second := switched(t, store)
	require.EqualValues(t, 700, row.MaxID)
	require.NotEqual(t, first, second)
	rows, err := store.Page(within(t, patience), "", "of-the-second", 10)
	require.NoError(t, err)
	require.Len(t, rows, 1, "lists come from there, too")
	rows, err = store.Find(within(t, patience), []string{"of-the-second"})
	require.NoError(t, err)
	require.Len(t, rows, 1)

	execSQL(t, dbs[1], "SET GLOBAL read_only = 1")
	for range 2 {
		_, err = storetest.Fetch(within(t, patience), store, "leaf-segment-test", 0, 0)
		require.ErrorIs(t, err, segment.ErrReadOnly)
		require.ErrorIs(t, err, segment.ErrStore)
		require.ErrorContains(t, err, hosts[0].Addr()+","+hosts[1].Addr())
	}
	execSQL(t, dbs[0], "SET GLOBAL read_only = 0")
	row, back := switched(t, store)
	require.Equal(t, first, back)
	require.EqualValues(t, 11, row.MaxID)

	execSQL(t, dbs[1], "SET GLOBAL read_only = 0")
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var asked atomic.Int64
	var accepting sync.WaitGroup
	accepting.Go(func() { // as the kernel does for a server that is frozen
		for {
			nc, err := frozen.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			defer nc.Close() //nolint:errcheck // nothing was said
		}
	})
	defer func() { require.NoError(t, frozen.Close()); accepting.Wait() }()
	fresh := openMySQL(t, strings.Replace(dsn, hosts[0].Addr(), frozen.Addr().String(), 1))
	_, now := switched(t, fresh)
	require.Equal(t, second, now)
	before := asked.Load()
	require.Positive(t, before)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			tx, err := fresh.Begin(within(t, patience), []string{"of-the-second", "leaf-segment-test"})
			if err != nil {
				t.Errorf("begin: %v", err)
				return
			}
			tx.Rollback(t.Context())
		})
	}
	wg.Wait()
	require.Equal(t, before, asked.Load(), "the first host isn't asked again")
	hosts[0].Kill(t)
	_, now = switched(t, openMySQL(t, dsn))
	require.Equal(t, second, now)
}
