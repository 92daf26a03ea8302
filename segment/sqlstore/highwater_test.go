package sqlstore_test

import (
	"database/sql"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
)

// commits counts the transactions in a write-ahead log of SQLite: the frames that end one
// (https://www.sqlite.org/fileformat2.html#the_write_ahead_log).
func commits(t *testing.T, wal string) (n int) {
	t.Helper()
	log, err := os.ReadFile(wal)
	require.NoError(t, err)
	size := 24 + int(binary.BigEndian.Uint32(log[8:]))
	for frames := log[32:]; len(frames) >= size; frames = frames[size:] {
		if binary.BigEndian.Uint32(frames[4:]) != 0 {
			n++
		}
	}
	return n
}

// A hundred marks that wait, here for another process's lock, take two transactions,
// the one that waits already and one for all others.
func TestMarksThatWaitAreOneTransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "marks.db")
	marks, err := sqlstore.OpenHighWater(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, marks.Close()) })
	_, err = marks.Use(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, marks.Raise(t.Context(), []segment.Mark{{Tag: "first", High: 1}}))
	before := commits(t, path+"-wal")

	other, err := sql.Open("sqlite", "file:"+path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	conn, err := other.Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	var raised sync.WaitGroup
	raise := func(i int) {
		raised.Go(func() {
			if err := marks.Raise(t.Context(), []segment.Mark{{Tag: fmt.Sprint("tag", i), High: int64(i)}}); err != nil {
				t.Errorf("raise: %v", err)
			}
		})
	}
	raise(0)
	require.Eventually(t, marks.Recording, 4*time.Second, time.Millisecond, "the first is by itself")
	for i := 1; i < 100; i++ {
		raise(i)
	}
	require.Eventually(t, func() bool { return marks.Waiting() >= 99 }, 4*time.Second, time.Millisecond)
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	raised.Wait()
	require.LessOrEqual(t, commits(t, path+"-wal")-before, 3)

	list, err := marks.Page(t.Context(), "", 1000, false)
	require.NoError(t, err)
	require.Len(t, list, 101)
}
