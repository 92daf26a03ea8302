package server

// ErrStarting is what a Backend's Snowflake returns until the daemon is certain
// of its worker ID, and its Check too: they answer 503 starting.
var ErrStarting error = errStarting
