// Package conn has the connections of leafd's listeners: their places and time-outs, TLS, and and turns. It
// knows no protocol and no ID: the package above gives a listener what it answers (Serving), and keeps its
// own of a connection in Conn.Client.
package conn
