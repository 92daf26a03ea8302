package loadtest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
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

// Bounds of a Config.
const (
	MaxClients = 100_000
	MaxBatch   = 1_000_000
	MaxRate    = 10_000_000 // requests a second
	MaxKeys    = 64
	// MaxPipeline bounds Pipeline: a server need not read on while its answers
	// aren't read, so that as many requests have to fit into the buffers between.
	MaxPipeline = 256
)

// Config says what to ask, how often, and what to check.
type Config struct {
	// URLs are the daemons, http://host:port, https://host:port or unix:/path;
	// client i asks number i modulo their number. With Mode Snowflake and Check
	// all of them share one ZooKeeper root.
	URLs []string
	// Mode is the kind of IDs.
	Mode Mode
	// Keys are the keys, or tags, that each client asks for in turn; 1 to MaxKeys.
	Keys []string
	// Batch is how many IDs a request asks for, 1 to MaxBatch.
	Batch int
	// Rate is how many requests a second have their turn; 0: a closed loop.
	Rate float64
	// Clients is how many connections there are, 1 to MaxClients.
	Clients int
	// Pipeline is how many requests a client sends together at most, 0 to
	// MaxPipeline; it waits for all of their answers before it sends more, and 0 is
	// 1. Of an open loop they are those that are due by their turn.
	Pipeline int
	// Duration is how long requests are sent.
	Duration time.Duration
	// Timeout is how long an answer may take; up to an eighth more.
	Timeout time.Duration
	// TLS is for https; nil: the system's certificates.
	TLS *tls.Config
	// Check compares the IDs with each other, as far as Result.Unique says.
	Check bool
	// Take, unless nil, is called with the IDs of each answer, by one goroutine at a
	// time. set is the index of the key with Mode Segment, 0 for all snowflake IDs.
	Take func(set int, p Place, ids []int64)
	// FirstClient is the number of the first client in the places of IDs.
	FirstClient int
	// Growing checks that the snowflake IDs of a connection grow. (Those of one
	// answer always have to.)
	Growing bool
	// Every is how often Progress is called while the load runs; 0: never.
	Every    time.Duration
	Progress func(Progress)
}

func (c Config) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	switch {
	case len(c.URLs) == 0:
		return bad("no URL")
	case c.Mode != Snowflake && c.Mode != Segment:
		return bad("mode is %q: want %s or %s", c.Mode, Snowflake, Segment)
	case len(c.Keys) == 0 || len(c.Keys) > MaxKeys || slices.Contains(c.Keys, ""):
		return bad("%d keys: want 1 to %d, none empty", len(c.Keys), MaxKeys)
	case c.Batch < 1 || c.Batch > MaxBatch:
		return bad("%d IDs a request: want 1 to %d", c.Batch, MaxBatch)
	case math.IsNaN(c.Rate) || c.Rate < 0 || c.Rate > MaxRate:
		return bad("rate is %v: want 0 to %d a second", c.Rate, int(MaxRate))
	case c.Clients < 1 || c.Clients > MaxClients:
		return bad("%d clients: want 1 to %d", c.Clients, MaxClients)
	case c.Clients < len(c.URLs):
		return bad("%d clients for %d URLs: want one for each at least", c.Clients, len(c.URLs))
	case c.Pipeline < 0 || c.Pipeline > MaxPipeline:
		return bad("%d requests together: want 1 to %d", c.Pipeline, MaxPipeline)
	case c.Duration <= 0:
		return bad("duration is %s: want more than 0", c.Duration)
	case c.Timeout < time.Millisecond:
		return bad("time-out is %s: want a millisecond or more", c.Timeout)
	}
	return nil
}

// set is the index of the set of IDs that must differ within, to which those of a key
// belong: all snowflake IDs are one, regardless of their key, and those of each tag are one.
func (c Config) set(key int) int {
	if c.Mode == Segment {
		return key
	}
	return 0
}
