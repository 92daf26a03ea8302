package loadtest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/leafd/leafd/internal/loadtest/unique"
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
	// ErrUnchecked is what Result.Verdict returns when it isn't known whether an
	// ID came twice, although that was asked.
	ErrUnchecked = errors.New("whether IDs came twice is not known")
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
	// Tick, of an open loop, lets the requests whose turn falls between two of
	// its multiples go together at the second one, 0 to a second. That costs much
	// less than the timer that each has of its own otherwise, and latencies count
	// from the turns all the same: they become longer by up to a Tick.
	Tick time.Duration
	// Clients is how many connections there are, 1 to MaxClients.
	Clients int
	// Pipeline is how many requests a client sends together at most, 0 to
	// MaxPipeline; it waits for all of their answers before it sends more, and 0 is
	// 1. Of an open loop they are those whose turn has come.
	Pipeline int
	// Duration is how long requests are sent.
	Duration time.Duration
	// Timeout is how long an answer may take; up to an eighth more.
	Timeout time.Duration
	// TLS is for https; nil: the system's certificates.
	TLS *tls.Config
	// Check compares all IDs with each other in Result.CheckUnique; nil: not.
	// Its Memory is shared by the keys of Mode Segment.
	Check *unique.Options
	// Journals, instead of Check, take the IDs, so that those of several Runs can
	// be compared with each other: one for all snowflake IDs, or one for each key
	// of Mode Segment. The caller checks and closes them.
	Journals []*unique.Journal
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
	case c.Tick < 0 || c.Tick > time.Second:
		return bad("tick is %s: want 0 to 1s", c.Tick)
	case c.Clients < 1 || c.Clients > MaxClients:
		return bad("%d clients: want 1 to %d", c.Clients, MaxClients)
	case c.Clients < len(c.URLs):
		return bad("%d clients for %d URLs: want one for each at least", c.Clients, len(c.URLs))
	case c.Pipeline < 0 || c.Pipeline > MaxPipeline:
		return bad("%d requests together: want 1 to %d", c.Pipeline, MaxPipeline)
	case c.Check != nil && len(c.Journals) > 0:
		return bad("both a check and journals")
	case len(c.Journals) > 0 && len(c.Journals) != c.sets():
		return bad("%d journals: want %d", len(c.Journals), c.sets())
	case c.FirstClient < 0:
		return bad("first client is %d: want 0 or more", c.FirstClient)
	case c.Duration <= 0:
		return bad("duration is %s: want more than 0", c.Duration)
	case c.Timeout < time.Millisecond:
		return bad("time-out is %s: want a millisecond or more", c.Timeout)
	}
	return nil
}

// sets is how many sets of IDs there are that must differ within: all snowflake
// IDs, whatever their key, and those of each tag.
func (c Config) sets() int {
	if c.Mode == Segment {
		return len(c.Keys)
	}
	return 1
}
