package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/leafd/leafd/segment"
)

// database is a pool of connections and the one way in which they are used.
type database struct {
	db      *sql.DB  // Immutable: for transactions that write
	readers *sql.DB  // Immutable: for reading; may be db itself
	dialect *dialect // Immutable
	idle    int      // Immutable: connections of db kept while unused
	place   string   // Immutable: what errors call it
}

// write runs fn in one transaction.
//
// What holds after any failure:
//
//   - nil is returned only after the database confirmed the commit. A commit
//     without an answer is an error, and is never repeated.
//   - When fn fails, nothing of the transaction stays.
//   - No connection goes back to the pool inside a transaction, or in doubt.
//   - Every step is bounded by ctx, the commit too: sql.Tx would commit
//     without it.
func (d *database) write(ctx context.Context, fn func(conn *sql.Conn) error) error {
	return d.writeFrom(ctx, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, d.dialect.begin)
		return err
	}, fn)
}

// writeFrom is write, where begin begins the transaction. An error of begin that is no answer
// means that nothing was begun.
func (d *database) writeFrom(ctx context.Context, begin, fn func(conn *sql.Conn) error) error {
	conn, err := d.begin(ctx, begin)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := fn(conn); err != nil {
		d.abandon(ctx, conn, err)
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"+d.dialect.end); err != nil {
		d.discard(conn, err)
		return fmt.Errorf("the commit was not confirmed, so it may or may not have been done: %w", err)
	}
	return nil
}

// begin returns a connection in a transaction that begin has begun.
func (d *database) begin(ctx context.Context, begin func(conn *sql.Conn) error) (*sql.Conn, error) {
	for attempt := 1; ; attempt++ {
		conn, err := d.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		segment.Answered(ctx)
		if err = begin(conn); err == nil {
			segment.Answered(ctx)
			return conn, nil
		}
		again := d.verdict(err) == verdictAgain
		if again {
			d.discard(conn, err)
		} else {
			d.abandon(ctx, conn, err)
		}
		conn.Close()
		if !again || attempt >= d.dialect.attempts || ctx.Err() != nil {
			return nil, err
		}
	}
}

// read runs a query outside a transaction and calls fn with each row.
func (d *database) read(ctx context.Context, fn func(rows *sql.Rows) error, query string, args ...any) error {
	for attempt := 1; ; attempt++ {
		conn, err := d.readers.Conn(ctx)
		if err != nil {
			return err
		}
		rows, err := conn.QueryContext(ctx, query, args...)
		if err == nil {
			return d.readRows(conn, rows, fn)
		}
		d.release(conn, err)
		if d.verdict(err) != verdictAgain || attempt >= d.dialect.attempts || ctx.Err() != nil {
			return err
		}
	}
}

// readRows calls fn with each of rows, and gives conn back.
func (d *database) readRows(conn *sql.Conn, rows *sql.Rows, fn func(rows *sql.Rows) error) error {
	defer func() { d.release(conn, rows.Err()) }() // after Close, without which it would wait for itself
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// release gives conn back after a query that failed with err, or didn't.
func (d *database) release(conn *sql.Conn, err error) {
	if err != nil && d.isDoubtful(err) {
		d.discard(conn, err)
	}
	_ = conn.Close() // discard has closed it already
}

// abandon ends the transaction of conn after cause. Asking for a rollback is
// worth it only where an answer can be expected; a connection that is closed
// rolls back as well.
func (d *database) abandon(ctx context.Context, conn *sql.Conn, cause error) {
	if !d.isDoubtful(cause) && ctx.Err() == nil {
		if _, err := conn.ExecContext(ctx, "ROLLBACK"+d.dialect.end); err == nil {
			return
		}
	}
	d.discard(conn, cause)
}

// discard closes conn for good. Where the database didn't answer, or is no
// longer the primary, the idle connections are as useless: they go too, or each
// of them would cost its own time-out to find out.
func (d *database) discard(conn *sql.Conn, cause error) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the way to say so to database/sql
	if d.isDoubtful(cause) {
		d.dropIdle()
	}
}

// dropIdle closes the idle connections.
func (d *database) dropIdle() {
	d.db.SetMaxIdleConns(0)
	d.db.SetMaxIdleConns(d.idle)
}

// fail says what was being done, where, and what to do about it. It returns nil
// for nil.
func (d *database) fail(ctx context.Context, err error, doing string) error {
	if err == nil {
		return nil
	}
	if refused := (refusedError{}); errors.As(err, &refused) {
		return refused.error
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	v, hint := d.dialect.judge(err)
	if v == verdictReadOnly && !errors.Is(err, segment.ErrReadOnly) {
		err = fmt.Errorf("%w: %w", segment.ErrReadOnly, err)
	}
	if hint != "" {
		return fmt.Errorf("%s in %s: %w; %s", doing, d.place, err, hint)
	}
	return fmt.Errorf("%s in %s: %w", doing, d.place, err)
}

// close closes all connections.
func (d *database) close() error {
	err := d.db.Close()
	if d.readers != d.db {
		err = errors.Join(err, d.readers.Close())
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", d.place, err)
	}
	return nil
}

// verdict judges an error that is not nil, ours too.
func (d *database) verdict(err error) verdict {
	if errors.As(err, new(refusedError)) {
		return verdictAnswered
	}
	for _, ours := range []error{segment.ErrUnknownTag, errNotMoved} {
		if errors.Is(err, ours) {
			return verdictAnswered
		}
	}
	v, _ := d.dialect.judge(err)
	if v == verdictLost && (errors.Is(err, segment.ErrBadRow) || errors.Is(err, segment.ErrRegressed)) {
		return verdictAnswered
	}
	return v
}

// isDoubtful tells whether err leaves its connection, and others of the pool, in doubt.
func (d *database) isDoubtful(err error) bool {
	v := d.verdict(err)
	return v == verdictLost || v == verdictReadOnly
}
