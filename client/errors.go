package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrBadResponse is in the chain of an error when a daemon, or a proxy before it,
// answered with something that isn't the IDs asked for.
var ErrBadResponse = errors.New("client: not a response of leafd")

// Error is a daemon's answer to a request that it refused.
type Error struct {
	Address    string        // of the daemon
	Status     int           // of HTTP
	Code       string        // stable: unknown_key, clock_backwards, …; see docs/API.md
	Message    string        // for people
	RetryAfter time.Duration // 0: the answer had none
}

// Error returns what the daemon said.
func (e *Error) Error() string {
	return fmt.Sprintf("client: %s answered %d %s: %s", e.Address, e.Status, e.Code, e.Message)
}

// Final reports whether the request itself is refused, so that asking again later can't help.
func (e *Error) Final() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return e.Status >= 400 && e.Status < 500
}

// isFinal reports whether err is a daemon's answer that waiting won't change.
func isFinal(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Final()
}
