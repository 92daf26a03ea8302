package sqlstore

import (
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/leafd/leafd/segment"
)

// Error numbers of the server, from the MySQL and MariaDB error references.
const (
	erUnknownCommand      = 1047
	erBadNull             = 1048
	erBadDB               = 1049
	erServerShutdown      = 1053
	erBadField            = 1054
	erDupEntry            = 1062
	erDBAccessDenied      = 1044
	erAccessDenied        = 1045
	erTableAccessDenied   = 1142
	erColumnAccessDenied  = 1143
	erNoSuchTable         = 1146
	erLockWaitTimeout     = 1205
	erLockDeadlock        = 1213
	erWarnDataOutOfRange  = 1264
	erWarnDataTruncated   = 1265
	erCantMixCollations   = 1267
	erCantMix3Collations  = 1270
	erCantMixNCollations  = 1271
	erOptionPrevents      = 1290
	erTruncatedWrongValue = 1292
	erWrongValueForField  = 1366
	erDataTooLong         = 1406
	erStatementBinlog     = 1665
	erDataOutOfRange      = 1690
	erReadOnlyTransaction = 1792
	erReadOnlyMode        = 1836
	erInnoDBReadOnly      = 1874
	erConnectionKilled    = 1927
	erOfflineMode         = 3032
	erReplicationHook     = 3100
	erRolledBackInCommit  = 3101
	erCheckViolatedMySQL  = 3819
	erCantConvertString   = 3854
	erCheckViolatedMaria  = 4025
)

// judgeMySQL is the dialect's judge.
func judgeMySQL(err error) (verdict, string) {
	if errors.Is(err, errEngine) {
		return verdictAnswered, ""
	}
	const noWrites = "the server takes no writes: it is a replica, or a failover is under way"
	if errors.Is(err, segment.ErrReadOnly) {
		return verdictReadOnly, noWrites
	}
	if errors.Is(err, driver.ErrBadConn) {
		return verdictAgain, ""
	}
	if errors.Is(err, mysql.ErrInvalidConn) {
		return verdictLost, "the connection broke, or there was no answer within its readTimeout"
	}
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return verdictLost, ""
	}
	switch answer.Number {
	case erDupEntry:
		return verdictDuplicate, "where the collation of biz_tag takes two tags for one (case, trailing spaces) it holds only one of them"
	case erWarnDataOutOfRange, erDataOutOfRange:
		return verdictBadValue, "max_id has to be BIGINT, and step at least INT"
	case erBadNull, erWarnDataTruncated, erTruncatedWrongValue, erWrongValueForField, erDataTooLong,
		erCheckViolatedMySQL, erCheckViolatedMaria:
		return verdictBadValue, "see deploy/leaf_alloc.sql for the columns that leafd expects"
	case erCantMixCollations, erCantMix3Collations, erCantMixNCollations, erCantConvertString:
		return verdictForeign, ""
	case erOptionPrevents, erReadOnlyTransaction, erReadOnlyMode, erInnoDBReadOnly:
		return verdictReadOnly, noWrites
	case erUnknownCommand: // Galera's, of a node that is no part of the cluster
		return verdictLost, "the node has no quorum, or is still joining its cluster"
	case erServerShutdown, erConnectionKilled, erOfflineMode, erReplicationHook, erRolledBackInCommit:
		return verdictLost, "the server is going down, or a failover is under way"
	case erStatementBinlog:
		return verdictAnswered, "leafd writes at READ COMMITTED: set binlog_format to ROW or MIXED"
	case erNoSuchTable, erBadDB:
		return verdictAnswered, "create it with deploy/leaf_alloc.sql"
	case erBadField:
		return verdictAnswered, "see deploy/leaf_alloc.sql for the columns that leafd expects"
	case erAccessDenied, erDBAccessDenied:
		return verdictAnswered, "check user, password and database of the DSN"
	case erTableAccessDenied, erColumnAccessDenied:
		return verdictAnswered, "leafd needs SELECT and UPDATE on " + table + ", and INSERT and DELETE to create and delete tags"
	case erLockWaitTimeout, erLockDeadlock:
		return verdictAnswered, "nothing was taken; another transaction had the row"
	}
	return verdictAnswered, ""
}

// Said tells the number of the error that a database's server has answered with, and what
// leafd knows of it; "" where err has no such answer. The text of the answer is the server's,
// and no part of it.
func Said(err error) string {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return ""
	}
	said := fmt.Sprintf("the database answers with error %d", answer.Number)
	if _, hint := judgeMySQL(err); hint != "" {
		said += ": " + hint
	}
	return said
}
