package sqlstore

import (
	"context"
	"database/sql"
)

// Stores returns the names of the stores that there are marks of, or SQLite's error.
func (m *HighWater) Stores(ctx context.Context) (names []string, err error) {
	err = m.db.read(ctx, m.db.look, "SELECT name FROM stores ORDER BY name", func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	return names, m.db.wrap(ctx, err, "list the stores of the marks")
}
