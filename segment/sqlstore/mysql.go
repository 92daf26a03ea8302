package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leafd/leafd/segment"
)

// Time-outs of a DSN that names none. The driver has none by default: against a
// server that was stopped in place, a query would never return.
const (
	defaultTimeout      = 500 * time.Millisecond // to connect
	defaultReadTimeout  = 3 * time.Second        // for any one answer: segment, which says so, gives up first
	defaultWriteTimeout = time.Second
	// hostTimeout bounds an attempt at one host of several: seven round trips with TLS, of 200 ms each.
	hostTimeout = 1500 * time.Millisecond
)

const (
	// fetchConns bounds what one daemon asks of the server at once: one for each fetcher.
	fetchConns = 8
	// otherConns are for what else asks: looks for tags, lists, changes.
	otherConns = 2
	// An idle connection is closed before the server would, and logged it: see sessionWait.
	fetchIdle, otherIdle = 2 * time.Second, 30 * time.Second
	// maxLifetime bounds how long a connection stays with a server after
	// the name leads to another.
	maxLifetime = 5 * time.Minute
	// sessionWait, in seconds, is after how long the server gives up on a silent connection; its default
	// is eight hours. fetchWait is that of one that locks rows: a daemon that freezes holds them so long.
	sessionWait, fetchWait = "60", "3"
	// lockWait, in seconds, keeps a fetch that no caller waits for any more from
	// queueing for a row for another 50 s, or for a table that is being altered
	// for another day, the server's defaults.
	lockWait = "1"
)

// mysqlDialect is the dialect of MySQL and MariaDB. MariaDB passes over comments of MySQL's versions
// from 5.7 on, and MySQL over MariaDB's.
var mysqlDialect = &dialect{ //nolint:gochecknoglobals // a constant
	judge:      judgeMySQL,
	forUpdate:  " FOR UPDATE",
	skipLocked: " SKIP LOCKED",
	readOnly:   "CONCAT_WS(' ', @@global.read_only, @@global.innodb_read_only)", // super_read_only turns the first on
	server:     "/*!50720 @@server_uuid *//*M! CONCAT(@@hostname, ':', @@port, '/', @@server_id) */",
	text:       "CONVERT(%s USING utf8mb4)",
	bytes:      "CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY)",
	contains:   "LOCATE(LOWER(CONVERT(%s USING utf8mb4)) COLLATE utf8mb4_bin, LOWER(CONVERT(biz_tag USING utf8mb4)) COLLATE utf8mb4_bin) > 0",
}

// settings returns the variables of each connection, against the DSN and the server if need be.
//
//   - strict: else a value that doesn't fit is clipped, with a warning that nothing reads.
//   - all rows: with a limit tags are missing.
//   - of reads, autocommit: else a read leaves a transaction open on a pooled connection.
//   - of writes, no autocommit: the locking read begins the transaction, which saves a round trip.
//   - READ COMMITTED: above it, the look for a tag that isn't there locks the gap, and keeps out all clients
//     that create a tag there.
//   - completion_type: else the server may end the connection with a COMMIT, before it has answered.
func settings(writes bool) map[string]string {
	set := map[string]string{
		"sql_mode": "'STRICT_ALL_TABLES'", "time_zone": "'+00:00'", "character_set_results": "utf8mb4",
		"sql_select_limit": "18446744073709551615", "autocommit": "1",
	}
	if writes {
		set["autocommit"], set["completion_type"], set["wait_timeout"] = "0", "0", fetchWait
		set["/*!50720 transaction_isolation *//*M! tx_isolation */"] = "'READ-COMMITTED'"
	}
	return set
}

// mysqlConfig returns the driver's configuration for dsn, without the session's settings.
func mysqlConfig(dsn string) (*mysql.Config, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("%w: it names no database; it ends in /leaf, say", ErrBadDSN)
	}
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), defaultTimeout)
	cfg.ReadTimeout = cmp.Or(max(cfg.ReadTimeout, 0), defaultReadTimeout)
	cfg.WriteTimeout = cmp.Or(max(cfg.WriteTimeout, 0), defaultWriteTimeout)
	cfg.Logger = &mysql.NopLogger{} // errors are returned; the default writes to stderr as well
	cfg.ParseTime = true
	cfg.Loc = time.UTC
	cfg.CheckConnLiveness = true
	// Rows are counted as found, as SQLite does.
	cfg.ClientFoundRows = true
	cfg.MultiStatements = false
	cfg.AllowAllFiles = false
	// An answer that the server is read-only is ours to handle: the driver
	// would reduce it to "bad connection".
	cfg.RejectReadOnly = false
	// The handshake says so, and SET NAMES would cost a round trip, but where the DSN has its own.
	cfg.Collation = "utf8mb4_general_ci"
	if strings.Contains(cfg.FormatDSN(), "charset=") {
		err = cfg.Apply(mysql.Charset("utf8mb4", cfg.Collation))
	}
	params := map[string]string{"wait_timeout": sessionWait, "lock_wait_timeout": lockWait, "innodb_lock_wait_timeout": lockWait}
	for name, value := range cfg.Params {
		params[strings.ToLower(name)] = value
	}
	cfg.Params = params
	return cfg, err
}

// servers are the hosts that a Config names, in its order, by the connectors to them.
type servers struct {
	place string
	hosts []map[bool]driver.Connector // by whether it is for writes
	next  atomic.Int64                // which to use: the one that was used last, or the one after it once that has failed
}

// newServers returns the servers of c, and has connected to none. ErrBadDSN.
func newServers(c Config) (*servers, error) {
	cfg, err := mysqlConfig(c.DSN)
	switch {
	case err != nil:
		return nil, err
	case c.TLS != nil && cfg.TLSConfig != "":
		return nil, fmt.Errorf("%w: it has tls= beside the certificates that sign the server's: leave one out", ErrBadDSN)
	case c.Password != nil && cfg.Passwd != "":
		return nil, fmt.Errorf("%w: it has a password beside the file with it: leave one out", ErrBadDSN)
	}
	if c.TLS != nil {
		cfg.TLS = c.TLS.Clone()
	}
	if c.Password != nil {
		err = cfg.Apply(mysql.BeforeConnect(func(_ context.Context, cfg *mysql.Config) (err error) {
			cfg.Passwd, err = c.Password()
			return err
		}))
	}
	s := &servers{place: "database " + cfg.DBName + " on " + cfg.Addr}
	for _, address := range hostsOf(cfg) {
		host := map[bool]driver.Connector{}
		for _, writes := range []bool{false, true} {
			of := cfg.Clone()
			of.Addr = address
			if of.TLS != nil && c.TLS == nil {
				of.TLS.ServerName = "" // the driver has taken it from all hosts together
			}
			maps.Copy(of.Params, settings(writes))
			connector, failed := mysql.NewConnector(of)
			host[writes], err = connector, errors.Join(err, failed)
		}
		s.hosts = append(s.hosts, host)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the driver refuses it", ErrBadDSN)
	}
	return s, nil
}

// mysqlConnector connects to the first of servers that can be written, beginning with the one that was used
// last: one that is away costs its time-out once, and no attempt begins with it again before the others have
// failed. A single host is asked nothing.
type mysqlConnector struct {
	servers *atomic.Pointer[servers] // a reload replaces it
	writes  bool
}

// Driver implements driver.Connector.
func (c *mysqlConnector) Driver() driver.Driver { return mysql.MySQLDriver{} }

// Connect implements driver.Connector.
func (c *mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	s := c.servers.Load()
	var errs []error
	for i := 0; i < len(s.hosts) && ctx.Err() == nil; i++ {
		at := s.next.Load()
		conn, err := connect(ctx, s.hosts[at][c.writes], len(s.hosts) > 1)
		if err == nil {
			return conn, nil
		}
		s.next.CompareAndSwap(at, (at+1)%int64(len(s.hosts))) // also where no time is left for it
		errs = append(errs, err)
	}
	return nil, connectError{errors.Join(append(errs, ctx.Err())...)}
}

// connect connects to a host; where there are several, within hostTimeout, and segment.ErrReadOnly.
func connect(ctx context.Context, to driver.Connector, several bool) (driver.Conn, error) {
	if !several {
		return to.Connect(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	conn, err := to.Connect(ctx)
	if err != nil {
		return nil, err
	}
	value := []driver.Value{nil}
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "SELECT "+mysqlDialect.readOnly, nil) //nolint:forcetypeassert // the driver's
	if err == nil {
		err = errors.Join(rows.Next(value), rows.Close())
	}
	if err == nil && isOn(fmt.Sprintf("%s", value[0])) {
		err = segment.ErrReadOnly
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// isOn reports whether a server's variable is on, in any of the forms that servers have, or one of several.
func isOn(values string) bool {
	return slices.ContainsFunc(strings.Fields(values), func(value string) bool { return value != "0" && !strings.EqualFold(value, "OFF") })
}

// openMySQL returns the Store in the MySQL or MariaDB database that c.DSN names, in the form of
// github.com/go-sql-driver/mysql, but with several hosts in the parentheses if need be. It connects to
// nothing yet: the server may be down. An error says what is wrong with dsn, without its password.
//
// Where the dsn names no time-outs it gets timeout=500ms, readTimeout=3s and writeTimeout=1s; zero counts as
// none named.
func openMySQL(c Config) (*Store, error) {
	first, err := newServers(c)
	if err != nil {
		return nil, err
	}
	current := new(atomic.Pointer[servers])
	current.Store(first)
	pool := func(writes bool, conns int, idle time.Duration) *sql.DB {
		p := newPool(&mysqlConnector{current, writes}, conns)
		p.SetConnMaxIdleTime(idle)
		p.SetConnMaxLifetime(maxLifetime)
		return p
	}
	s := newStore(&database{
		fetch: pool(true, fetchConns, fetchIdle), change: pool(true, otherConns, fetchIdle),
		look: pool(false, otherConns, otherIdle), list: pool(false, otherConns, fetchIdle),
		dialect: mysqlDialect, place: first.place,
	})
	s.servers = current
	return s, nil
}

// Reload has new connections made as c says, which names the Store's database (SameDatabase). It returns
// ErrBadDSN if c can't be used.
func (s *Store) Reload(c Config) error {
	if s.servers == nil {
		return nil
	}
	next, err := newServers(c)
	if err == nil {
		s.servers.Store(next)
		s.dropIdle()
	}
	return err
}
