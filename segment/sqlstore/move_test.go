package sqlstore

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMoveIsOursAlone breaks the lock that a fetch doesn't trust:
// another client writes between our read of max_id and our write.
func TestMoveIsOursAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile string
		maxID     []int64 // in the end
		moved     bool
	}{
		"no write": {meanwhile: "SELECT 1", maxID: []int64{11}, moved: true},
		// What is read back then is what we wanted to write.
		"the same range was taken":   {meanwhile: "UPDATE leaf_alloc SET max_id = 11", maxID: []int64{11}},
		"another range was taken":    {meanwhile: "UPDATE leaf_alloc SET max_id = 500", maxID: []int64{500}},
		"the table was set back":     {meanwhile: "UPDATE leaf_alloc SET max_id = 0", maxID: []int64{0}},
		"the row was removed":        {meanwhile: "DELETE FROM leaf_alloc"},
		"the tag came a second time": {meanwhile: twice, maxID: []int64{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "segments.db")
			store, err := OpenSQLite(path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			exec := func(query string) {
				require.NoError(t, store.write(t.Context(), func(conn *sql.Conn) error {
					_, err := conn.ExecContext(t.Context(), query)
					return err
				}))
			}
			exec("DELETE FROM leaf_alloc; INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('order', 1, 10)")
			exec(tc.meanwhile)
			err = store.write(t.Context(), func(conn *sql.Conn) error {
				return store.moveMaxID(t.Context(), conn, "order", 1, 11)
			})
			if tc.moved {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errNotMoved)
			}
			rows, err := store.List(t.Context())
			require.NoError(t, err)
			var maxID []int64
			for _, row := range rows {
				maxID = append(maxID, row.MaxID)
			}
			require.Equal(t, tc.maxID, maxID)
		})
	}
}

// twice is a table without its key, the tag in two rows.
const twice = "CREATE TABLE other AS SELECT * FROM leaf_alloc UNION ALL SELECT * FROM leaf_alloc; " +
	"DROP TABLE leaf_alloc; ALTER TABLE other RENAME TO leaf_alloc"
