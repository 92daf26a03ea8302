package server

// ErrStarting is a Backend's Refused until the daemon is certain of its worker ID. The answer is 503 starting.
var ErrStarting error = errStarting
