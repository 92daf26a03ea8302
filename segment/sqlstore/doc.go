// Package sqlstore keeps segments in the Java Leaf's table leaf_alloc, on MySQL
// or MariaDB for a cluster and in a SQLite file for a daemon of its own, and the
// marks of what was used in a second SQLite file. The SQL is written once; a
// dialect holds the few words in which the databases differ, and a form those in
// which the tables do.
//
// Errors wrap the sentinels of package segment, and otherwise the driver's own.
// Nothing here logs.
package sqlstore
