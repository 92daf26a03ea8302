package server

// ErrStarting is returned by a Backend's Snowflake and its Check until the daemon is
// certain of its worker ID. The answer is 503 starting.
var ErrStarting error = errStarting

// StartingFor is ErrStarting with what the daemon waits for, in words for everybody; "" for
// nothing that is known.
func StartingFor(what string) error {
	if what == "" {
		return ErrStarting
	}
	return errStarting.with("%s: %s", errStarting.message, what)
}
