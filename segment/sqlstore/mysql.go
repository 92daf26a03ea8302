package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
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
)

const (
	// maxConns bounds what one daemon asks of the server at once. Fetches
	// are rare; more of them would only queue on rows.
	maxConns     = 8
	maxIdleConns = 2
	// peopleConns are for lists and changes of tags.
	peopleConns = 2
	// maxIdleTime stays below sessionWait, so that the server never closes
	// a connection that the pool holds for good.
	maxIdleTime = 30 * time.Second
	// maxLifetime bounds how long a connection stays with a server after
	// the name leads to another.
	maxLifetime = 5 * time.Minute
	// sessionWait, in seconds, is after how long the server gives up on a
	// silent connection; its default is eight hours. fetchWait is that within a
	// transaction: the row of a daemon that freezes there stays locked so long.
	sessionWait, fetchWait = "60", "3"
	// lockWait, in seconds, keeps a fetch that no caller waits for any more from
	// queueing for a row for another 50 s, or for a table that is being altered
	// for another day, the server's defaults.
	lockWait = "1"
)

// openMySQL returns the Store in the MySQL or MariaDB database that c.DSN names, in
// the form of github.com/go-sql-driver/mysql. It connects to nothing yet: the
// server may be down. An error says what is wrong with dsn, without its password.
//
// Where the dsn names no time-outs it gets timeout=500ms, readTimeout=3s and
// writeTimeout=1s; zero counts as none named. What correctness rests on is always set,
// against the dsn and the server if need be: UTF-8, UTC, strict SQL mode, autocommit, READ
// COMMITTED, no limit of rows, rows counted as found.
func openMySQL(c Config) (*Store, error) {
	cfg, inner, err := newMySQLConnector(c)
	if err != nil {
		return nil, err
	}
	connector := &mysqlConnector{}
	connector.inner.Store(&inner)
	pool := func(conns, idle int) *database {
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(idle)
		db.SetConnMaxIdleTime(maxIdleTime)
		db.SetConnMaxLifetime(maxLifetime)
		return &database{db: db, readers: db, dialect: mysqlDialect(cfg), idle: idle, place: placeOf(cfg)}
	}
	s := newStore(pool(maxConns, maxIdleConns), pool(peopleConns, 1))
	s.connector = connector
	return s, nil
}

// SameDatabase tells that a and b name one database, with any users and parameters: a
// Store of a may go on with b. On two tables at once one range would be given twice.
func SameDatabase(a, b string) bool {
	if a == b {
		return true
	}
	was, errA := mysqlConfig(a)
	is, errB := mysqlConfig(b)
	return errA == nil && errB == nil && placeOf(was) == placeOf(is)
}

// Reload has new connections made as c says, which names the Store's database
// (SameDatabase). ErrBadDSN.
func (s *Store) Reload(c Config) error {
	if s.connector == nil {
		return nil
	}
	_, inner, err := newMySQLConnector(c)
	if err != nil {
		return err
	}
	s.connector.inner.Store(&inner)
	for _, d := range []*database{s.database, s.people} {
		d.dropIdle()
	}
	return nil
}

// newMySQLConnector returns the driver's configuration for c, and a connector with
// it, which has connected to nothing. ErrBadDSN.
func newMySQLConnector(c Config) (*mysql.Config, driver.Connector, error) {
	cfg, err := mysqlConfig(c.DSN)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case c.TLS == nil:
	case cfg.TLSConfig != "":
		return nil, nil, fmt.Errorf("%w: it has tls= beside the certificates that sign the server's: leave one out", ErrBadDSN)
	default:
		cfg.TLS = c.TLS.Clone()
	}
	switch {
	case c.Password == nil:
	case cfg.Passwd != "":
		return nil, nil, fmt.Errorf("%w: it has a password beside the file with it: leave one out", ErrBadDSN)
	default:
		err := cfg.Apply(mysql.BeforeConnect(func(_ context.Context, cfg *mysql.Config) (err error) {
			cfg.Passwd, err = c.Password()
			return err
		}))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrBadDSN, err)
		}
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the driver refuses it", ErrBadDSN)
	}
	return cfg, connector, nil
}

// placeOf names the database, without user and password.
func placeOf(cfg *mysql.Config) string { return "database " + cfg.DBName + " on " + cfg.Addr }

// mysqlConfig returns the driver's configuration for dsn.
func mysqlConfig(dsn string) (*mysql.Config, error) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return nil, err
	}
	if cfg.DBName == "" {
		return nil, fmt.Errorf("%w: it names no database; it ends in /leaf, say", ErrBadDSN)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.ReadTimeout <= 0 {
		cfg.ReadTimeout = defaultReadTimeout
	}
	if cfg.WriteTimeout <= 0 {
		cfg.WriteTimeout = defaultWriteTimeout
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, network, address)
		segment.Answered(ctx)
		return conn, err
	}
	cfg.Logger = &mysql.NopLogger{} // errors are returned; the default writes to stderr as well
	cfg.ParseTime = true
	cfg.Loc = time.UTC
	cfg.CheckConnLiveness = true
	// Rows are counted as found, as SQLite does. That a found row was
	// changed as well is Fetch's to check, and it does.
	cfg.ClientFoundRows = true
	// One round trip a query, not three. The driver escapes for UTF-8,
	// which is what every connection speaks.
	cfg.InterpolateParams = true
	cfg.MultiStatements = true
	cfg.AllowAllFiles = false
	// An answer that the server is read-only is ours to handle: the driver
	// would reduce it to "bad connection".
	cfg.RejectReadOnly = false
	if err := cfg.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadDSN, err)
	}
	session := map[string]string{"wait_timeout": sessionWait, "lock_wait_timeout": lockWait, "innodb_lock_wait_timeout": lockWait}
	for name, value := range cfg.Params {
		session[strings.ToLower(name)] = value
	}
	// Out of strict mode a value that doesn't fit is clipped, with a warning
	// that nothing reads: a max_id at the end of its column stays there, and
	// the same range is fetched again.
	session["sql_mode"] = "'STRICT_ALL_TABLES'"
	session["time_zone"] = "'+00:00'"
	// Without, a read leaves a transaction open on a pooled connection.
	session["autocommit"] = "1"
	// With a limit a pass misses rows, and takes their tags for gone.
	session["sql_select_limit"] = "18446744073709551615"
	cfg.Params = session
	return cfg, nil
}

func mysqlDialect(cfg *mysql.Config) *dialect {
	return &dialect{
		begin:     "SET SESSION wait_timeout = " + fetchWait + "; START TRANSACTION",
		end:       "; SET SESSION wait_timeout = " + cfg.Params["wait_timeout"],
		together:  true,
		attempts:  3, // a stale connection of the pool, twice, then a fresh one
		forUpdate: " FOR UPDATE",
		matchTag:  "biz_tag = ? AND CAST(CONVERT(biz_tag USING utf8mb4) AS BINARY) = CAST(? AS BINARY)",
		readOnly:  "@@global.read_only", // super_read_only turns it on too
		view:      viewMySQL,
		literal:   strings.NewReplacer("'", "''", `\`, `\\`),
		judge:     judgeMySQL,
	}
}

// viewMySQL is the dialect's view. A timestamp is in UTC, in whichever time zone it was written.
const viewMySQL = "SELECT UTC_TIMESTAMP(), CONCAT_WS(' ', @@hostname, @@port, @@server_id, CREATE_TIME), " +
	"EXISTS (SELECT 1 FROM information_schema.STATISTICS" + ofTable + " AND COLUMN_NAME = 'update_time' AND SEQ_IN_INDEX = 1) " +
	"AND EXISTS (SELECT 1 FROM information_schema.COLUMNS" + ofTable + " AND COLUMN_NAME = 'update_time' AND DATA_TYPE = 'timestamp' " +
	"AND EXTRA LIKE '%on update current_timestamp%') FROM information_schema.TABLES" + ofTable

// ofTable picks what information_schema has of our table.
const ofTable = " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '" + table + "'"

// mysqlConnector sets the isolation level, and refuses a table without transactions. On MyISAM and Aria two
// Java Leaf clients get one range twice, and so would a client and leafd: any other client
// can move max_id between its UPDATE and its SELECT. Each new connection looks, so a table
// that is altered while the daemon runs is noticed too.
type mysqlConnector struct {
	inner atomic.Pointer[driver.Connector] // a reload replaces it
}

// Driver implements driver.Connector.
func (c *mysqlConnector) Driver() driver.Driver { return (*c.inner.Load()).Driver() }

// noTransactions has a row when the table's engine has no transactions.
const noTransactions = "SELECT t.ENGINE FROM information_schema.TABLES t " +
	"JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE " +
	"WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = '" + table + "' AND e.TRANSACTIONS <> 'YES'"

// errEngine is returned when the table's engine has no transactions.
var errEngine = errors.New("table " + table + " has an engine without transactions, with which two clients can get one range; " +
	"run: ALTER TABLE " + table + " ENGINE=InnoDB")

// Connect implements driver.Connector.
func (c *mysqlConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := (*c.inner.Load()).Connect(ctx)
	if err != nil {
		return nil, err
	}
	segment.Answered(ctx)
	if err := prepare(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// errDriver is returned when the driver has changed, and not the server.
var errDriver = errors.New("the driver runs no statements")

// prepare has each statement see what was committed last, and lock no more than
// its row: above READ COMMITTED, the look for a tag that isn't there locks the gap, and
// keeps out all clients that create a tag there. A statement, since the variable's name
// differs between servers. errEngine where the table has no transactions.
func prepare(ctx context.Context, conn driver.Conn) error {
	queryer, ok := conn.(driver.QueryerContext)
	if !ok {
		return errDriver
	}
	rows, err := queryer.QueryContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; "+noTransactions, nil)
	if err != nil {
		return err
	}
	values := make([]driver.Value, len(rows.Columns()))
	switch err := errors.Join(rows.Next(values), rows.Close()); {
	case err == nil:
		return errEngine
	case errors.Is(err, io.EOF): // as it should be
		return nil
	default:
		return err
	}
}
