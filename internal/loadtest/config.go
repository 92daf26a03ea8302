package loadtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of this package.
var (
	// ErrConfig is returned by Run for a Config that makes no sense.
	ErrConfig = errors.New("bad load")
	// ErrUnreachable is returned by Run when no client could connect to begin with.
	ErrUnreachable = errors.New("no connection")
	// ErrFailed is what Result.Verdict returns when no request brought an ID.
	ErrFailed = errors.New("no request was answered with IDs")
	// ErrRepeated is what Result.Verdict returns when an ID came twice.
	ErrRepeated = errors.New("IDs came more than once")
	// ErrNotGrowing is what Result.Verdict returns when IDs did not grow.
	ErrNotGrowing = errors.New("IDs did not grow")
	// ErrWrongAnswer is what Result.Verdict returns when an answer of status 200
	// was not the IDs that were asked for.
	ErrWrongAnswer = errors.New("answers that are not the IDs asked for")
)

// Mode is the kind of IDs.
type Mode string

// The modes.
const (
	Snowflake Mode = "snowflake"
	Segment   Mode = "segment"
)

// Config says what to ask, how often, and what to check.
type Config struct {
	// URLs are the daemons, http://host:port, https://host:port or unix:/path;
	// client i asks number i modulo their number. With Mode Snowflake and Check
	// all of them share one ZooKeeper root.
	URLs []string
	// Mode is the kind of IDs.
	Mode Mode
	// Keys are the keys, or tags, that each client asks for in turn.
	Keys []string
	// Batch is how many IDs a request asks for, up to a million.
	Batch int
	// Rate is how many requests a second have their turn, up to ten million; 0: a closed loop.
	Rate float64
	// Clients is how many connections there are, up to 100,000.
	Clients int
	// Duration is how long requests are sent.
	Duration time.Duration
	// Timeout is how long an answer may take; up to an eighth more.
	Timeout time.Duration
	// TLS is for https; nil: the system's certificates.
	TLS *tls.Config
	// Check compares the IDs with each other, as far as Result.Unique says.
	Check bool
	// Growing checks that the snowflake IDs that a client gets grow, for a URL that is one
	// daemon. (Those of one answer always have to.)
	Growing bool
	// Ask, unless nil, is called in place of a request for IDs, of which nothing is known then; within
	// Timeout. Its error fails the request.
	Ask func(ctx context.Context) error
	// Take, unless nil, is called with the IDs of each answer, by one goroutine at a
	// time. set is the index of the key with Mode Segment, 0 for all snowflake IDs.
	Take func(set int, ids []int64)
	// Every is how often Progress is called while the load runs; 0: never.
	Every    time.Duration
	Progress func(Progress)
}

func (c Config) check() error {
	for _, wrong := range []struct {
		is   bool
		says string
	}{
		{c.Clients < max(1, len(c.URLs)) || c.Clients > 100_000, fmt.Sprintf("%d clients: want 1 to 100000, and one for each URL", c.Clients)},
		{c.Duration <= 0, fmt.Sprintf("duration is %s: want more than 0", c.Duration)},
		{!(c.Rate >= 0 && c.Rate <= 1e7), fmt.Sprintf("rate is %v: want 0 to 10000000 a second", c.Rate)}, // NaN too
		{c.Timeout < time.Millisecond, fmt.Sprintf("time-out is %s: want a millisecond or more", c.Timeout)},
		{c.Ask == nil && len(c.URLs) == 0, "no URL"},
		{c.Ask == nil && c.Mode != Snowflake && c.Mode != Segment, fmt.Sprintf("mode is %q: want %s or %s", c.Mode, Snowflake, Segment)},
		{c.Ask == nil && (len(c.Keys) == 0 || slices.Contains(c.Keys, "")), "a key is empty, or there is none"},
		{c.Ask == nil && (c.Batch < 1 || c.Batch > 1e6), fmt.Sprintf("%d IDs a request: want 1 to 1000000", c.Batch)},
	} {
		if wrong.is {
			return fmt.Errorf("%w: %s", ErrConfig, wrong.says)
		}
	}
	return nil
}

// set returns the index of the set of IDs that must differ within, to which those of a key
// belong: all snowflake IDs are one, regardless of their key, and those of each tag are one.
func (c Config) set(key int) int {
	if c.Mode == Segment {
		return key
	}
	return 0
}
