package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/leafd/leafd/segment"
)

// database is a database by its pools of connections. What waits in one keeps no other waiting.
type database struct {
	fetch, change *sql.DB // Immutable: for transactions of fetches, and of people
	look, list    *sql.DB // Immutable: for reading, likewise
	*dialect
	place string // Immutable: what errors call it
}

// newPool returns a pool of conns connections at most.
func newPool(c driver.Connector, conns int) *sql.DB {
	p := sql.OpenDB(c)
	p.SetMaxOpenConns(conns)
	p.SetMaxIdleConns(conns)
	return p
}

// dropIdle closes the idle connections. Where the database didn't answer, or is no longer the
// primary, each of them would cost its own time-out to find out.
func (d *database) dropIdle() {
	for _, p := range []*sql.DB{d.fetch, d.change, d.look, d.list} {
		conns := p.Stats().MaxOpenConnections
		p.SetMaxIdleConns(0)
		p.SetMaxIdleConns(conns)
	}
}

// close closes all connections.
func (d *database) close() error {
	if err := errors.Join(d.fetch.Close(), d.change.Close(), d.look.Close(), d.list.Close()); err != nil {
		return fmt.Errorf("close %s: %w", d.place, err)
	}
	return nil
}

// session is a connection in a transaction, or of one query.
//
// What holds after any failure:
//
//  1. commit returns nil only after the database confirmed it. One without an answer is an error, and
//     is never repeated. Nothing travels with it: a COMMIT that shares its packet with another statement
//     reads as OK on a Galera node though it failed.
//  2. A connection goes back to its pool only after an OK to its COMMIT or ROLLBACK.
//  3. Every step is bounded by its context, the commit too: sql.Tx would commit without it.
type session struct {
	d     *database
	conn  *sql.Conn
	open  bool  // a transaction is open
	cause error // why it is good for nothing but its end
}

// session returns a session of p, in a transaction unless that is for reading.
func (d *database) session(ctx context.Context, p *sql.DB) (*session, error) {
	conn, err := p.Conn(ctx)
	if err != nil {
		d.doubt(err)
		return nil, err
	}
	s := &session{d: d, conn: conn, open: p == d.fetch || p == d.change}
	if s.open && d.begin != "" {
		if _, err := s.exec(ctx, d.begin); err != nil {
			s.end(ctx)
			return nil, err
		}
	}
	return s, nil
}

// doubt closes the idle connections where err concerns them too.
func (d *database) doubt(err error) {
	if err != nil && d.verdict(err).gone {
		d.dropIdle()
	}
}

// fail notes err, and returns it.
func (s *session) fail(err error) error {
	if s.cause == nil {
		s.cause = err
	}
	return err
}

// exec runs a statement, and returns how many rows it found.
func (s *session) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	result, err := s.conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, s.fail(err)
	}
	return result.RowsAffected()
}

// query calls fn with each row that a query finds.
func (s *session) query(ctx context.Context, query string, fn func(rows *sql.Rows) error, args ...any) error {
	rows, err := s.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return s.fail(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return s.fail(err)
		}
	}
	return s.fail(rows.Err())
}

// commit ends the transaction for good.
func (s *session) commit(ctx context.Context) error {
	if s.cause != nil { // nothing of a transaction stays in which a statement has failed
		s.end(ctx)
		return s.cause
	}
	if _, err := s.exec(ctx, "COMMIT"); err != nil {
		err = fmt.Errorf("the commit was not confirmed, so it may or may not have been done: %w", err)
		s.discard()
		return err
	}
	s.open = false
	s.end(ctx)
	return nil
}

// end ends the transaction, if one is open, and gives the connection back. Asking for a rollback is
// worth it only where an answer can be expected; a connection that is closed rolls back as well.
func (s *session) end(ctx context.Context) {
	if s.cause != nil && !s.d.verdict(s.cause).sound {
		s.discard()
		return
	}
	if s.open {
		if _, err := s.exec(ctx, "ROLLBACK"); err != nil {
			s.discard()
			return
		}
	}
	s.open = false
	_ = s.conn.Close()
}

// discard closes the connection for good.
func (s *session) discard() {
	s.open = false
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn }) // the way to say so to database/sql
	_ = s.conn.Close()
	s.d.doubt(s.cause)
}

// read calls fn with each row that a query of p finds.
func (d *database) read(ctx context.Context, p *sql.DB, query string, fn func(rows *sql.Rows) error) error {
	s, err := d.session(ctx, p)
	if err != nil {
		return err
	}
	defer s.end(ctx)
	return s.query(ctx, query, fn)
}

// write runs fn in a transaction of p.
func (d *database) write(ctx context.Context, p *sql.DB, fn func(s *session) error) error {
	s, err := d.session(ctx, p)
	if err != nil {
		return err
	}
	if err := fn(s); err != nil {
		s.end(ctx)
		return err
	}
	return s.commit(ctx)
}

// wrap says what was being done, where, what the error is to segment, and what to do about it. It
// returns nil for nil.
func (d *database) wrap(ctx context.Context, err error, doing string) error {
	if err == nil {
		return nil
	}
	if own := (callerError{}); errors.As(err, &own) {
		return own.error
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	v := d.verdict(err)
	for _, is := range v.is {
		if errors.Is(err, is) {
			continue
		}
		err = fmt.Errorf("%w: %w", is, err)
	}
	if v.hint != "" {
		err = fmt.Errorf("%w (%s)", err, v.hint)
	}
	return fmt.Errorf("%s in %s: %w", doing, d.place, err)
}

// callerError is an error of a caller's function: the database has answered, and nothing is wrong with it.
type callerError struct{ error }

// verdict is what an error means.
type verdict struct {
	is    []error // sentinels of segment, the widest last
	hint  string  // what to do about it
	sound bool    // the database has answered on this connection, and it may go on
	gone  bool    // the other connections lead nowhere either
	stale bool    // the table may have changed
}

// verdict judges an error, ours too.
func (d *database) verdict(err error) verdict {
	for _, ours := range []error{segment.ErrUnknownTag, segment.ErrBadRow, segment.ErrTagExists, segment.ErrLowersMaxID, errNotMoved} {
		if errors.Is(err, ours) {
			return verdict{sound: true}
		}
	}
	if errors.As(err, new(callerError)) {
		return verdict{sound: true}
	}
	return d.judge(err)
}
