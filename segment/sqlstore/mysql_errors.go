package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/leafd/leafd/segment"
)

// errTable is returned for a table from which nothing may be taken.
var errTable = errors.New("table " + table + " can't be used")

// ErrNoTable is returned where the database has no leaf_alloc that the user may see.
var ErrNoTable = errors.New("no table " + table)

// What errors are to segment.
var (
	notOurs  = []error{segment.ErrStore}                      //nolint:gochecknoglobals // a constant
	noWrites = []error{segment.ErrReadOnly, segment.ErrStore} //nolint:gochecknoglobals // a constant
	badRow   = []error{segment.ErrBadRow}                     //nolint:gochecknoglobals // a constant
	locked   = []error{segment.ErrLocked}                     //nolint:gochecknoglobals // a constant
)

// demoted is the verdict on a server that says so.
var demoted = verdict{is: noWrites, hint: "the server takes no writes: it is a replica, or a failover is under way", gone: true} //nolint:gochecknoglobals // a constant

const columnsHint = "the columns that leafd needs are in deploy/leaf_alloc.sql"

// answers are the errors of a server that leafd knows, by their numbers in the references of MySQL and
// MariaDB. Any other is the one call's, and is told with its number.
var answers = []struct { //nolint:gochecknoglobals // a constant table
	numbers []uint16
	verdict
}{
	// lock wait timeout, deadlock
	{[]uint16{1205, 1213}, verdict{is: locked, hint: "nothing was taken; another transaction had the row", sound: true}},
	// option prevents, read-only transaction, read-only mode, InnoDB is read-only
	{[]uint16{1290, 1792, 1836, 1874}, demoted},
	// unknown command: Galera's
	{[]uint16{1047}, verdict{is: notOurs, hint: "the node has no quorum, or is still joining its cluster", gone: true}},
	// shutdown, connection killed, offline mode, replication hook, rolled back in COMMIT
	{[]uint16{1053, 1927, 3032, 3100, 3101}, verdict{is: notOurs, hint: "the server is going down, or a failover is under way", gone: true}},
	// access denied: to the database, to the user, without a password
	{[]uint16{1044, 1045, 1698}, verdict{is: notOurs, hint: "check user, password and database of the DSN", sound: true}},
	// access denied: to the table, to a column
	{[]uint16{1142, 1143}, verdict{is: notOurs, hint: "leafd needs SELECT and UPDATE on " + table + ", and INSERT and DELETE to create and delete tags", sound: true, stale: true}},
	// no such database, no such table
	{[]uint16{1049, 1146}, verdict{
		is: []error{ErrNoTable, segment.ErrStore}, hint: "the table is gone, or --mysql names another database: put it back with its rows", sound: true, stale: true,
	}},
	// no such column
	{[]uint16{1054}, verdict{is: notOurs, hint: columnsHint, sound: true, stale: true}},
	// the binary log takes no such statement
	{[]uint16{1665}, verdict{is: notOurs, hint: "leafd writes at READ COMMITTED: set binlog_format to ROW or MIXED", sound: true}},
	// too many connections, of the user, the user's resources
	{[]uint16{1040, 1203, 1226}, verdict{is: notOurs, hint: "the server has no connection left for our user: raise its limit, or close others"}},
	// disk full, an engine's, memory, resources, table full, prepared statements
	{[]uint16{1021, 1030, 1037, 1041, 1114, 1461}, verdict{is: notOurs, hint: "look at the server and its log", sound: true}},
	// duplicate key
	{[]uint16{1062}, verdict{
		is: []error{segment.ErrTagExists}, hint: "where the collation of biz_tag takes two tags for one (case, trailing spaces) it holds only one of them", sound: true,
	}},
	// out of range
	{[]uint16{1264, 1690}, verdict{is: badRow, hint: "max_id has to be BIGINT, and step at least INT", sound: true}},
	// NULL, truncated, wrong value, no default, wrong for the column, too long, CHECK of MySQL's and MariaDB's
	{[]uint16{1048, 1265, 1292, 1364, 1366, 1406, 3819, 4025}, verdict{is: badRow, hint: columnsHint, sound: true}},
}

const erParse, erDBAccess, erTableAccess, erColumnAccess = 1064, 1044, 1142, 1143

// numberOf returns the number of the error that a server has answered with; 0 where err has none.
func numberOf(err error) uint16 {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return 0
	}
	return answer.Number
}

// connectError is an error of making a connection, which concerns all that need one.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// lost are the errors of a connection that may be gone: what was sent may or may not have been done.
var lost = []error{ //nolint:gochecknoglobals // a constant list
	driver.ErrBadConn, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrBusyBuffer,
	io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded,
}

// judgeMySQL is the dialect's judge.
func judgeMySQL(err error) verdict {
	connecting, number := errors.As(err, new(connectError)), numberOf(err)
	for _, each := range answers {
		if slices.Contains(each.numbers, number) {
			return each.verdict
		}
	}
	switch {
	case errors.Is(err, segment.ErrReadOnly):
		return demoted
	case errors.Is(err, errTable):
		return verdict{is: notOurs, sound: true}
	case number > 0 && !connecting:
		return verdict{sound: true}
	case errors.Is(err, context.Canceled):
		return verdict{}
	case errors.Is(err, mysql.ErrInvalidConn):
		return verdict{is: notOurs, hint: "the connection broke, or there was no answer within its readTimeout", gone: true}
	case connecting || errors.As(err, new(net.Error)) || slices.ContainsFunc(lost, func(is error) bool { return errors.Is(err, is) }):
		return verdict{is: notOurs, gone: true}
	}
	return verdict{}
}

// Said returns the number of the error that a database's server has answered with, and what leafd knows of
// it; "" where err has no such answer. The text of the answer is the server's, and no part of it.
func Said(err error) string {
	number := numberOf(err)
	if number == 0 {
		return ""
	}
	said := fmt.Sprintf("the database answers with error %d", number)
	if hint := judgeMySQL(err).hint; hint != "" {
		said += ": " + hint
	}
	return said
}
