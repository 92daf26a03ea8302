// Package resp answers the Redis protocol, RESP2 and RESP3, with IDs: it reads the
// commands of a connection, carries out the few that leafd has, and writes the answers of
// all that arrived together at once. Where the IDs come from, and what may be refused, is
// a Source's, which package server implements for both of its protocols.
//
// No library for servers of this protocol bounds what a connection may hold, nor serves
// without allocating for each command: github.com/tidwall/redcon, which is the usual one,
// has its buffer grow with the length that a client announces, and accepts, times out and
// closes connections by itself.
package resp
