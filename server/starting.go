package server

// ErrStarting is returned by a Backend's Snowflake and its Check until the daemon is
// certain of its worker ID. The answer is 503 starting.
var ErrStarting error = errStarting
