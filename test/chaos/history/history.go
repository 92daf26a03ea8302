// Package history is what a chaos run writes down, and what is checked: each
// request with its answer, each life of a daemon, each step of a clock, each fault.
// It knows nothing of leafd, and imports nothing of it.
//
// A file of it is gzip of JSON, one record a line: zcat and grep read it.
package history

// Kind is what a Record tells of.
type Kind string

// Kinds of records.
const (
	KindRun    Kind = "run"    // the first: Text is how the run was started, Seed its seed
	KindLife   Kind = "life"   // process Process of Daemon was started, on the clock of host Host
	KindEnd    Kind = "end"    // that process has ended; Text says how
	KindWorker Kind = "worker" // process Process says that its worker ID is Worker, in the life of Owner
	// KindDisplaced: process Process was seen displaced: from At on it answers in another
	// life, under any worker ID.
	KindDisplaced Kind = "displaced"
	KindClock     Kind = "clock"   // the clock of Host went from offset From to To, between At and At+Took
	KindBegin     Kind = "begin"   // fault Fault (a number) of the kind Text began, on Targets
	KindEnded     Kind = "ended"   // fault Fault is over and every daemon serves again
	KindNote      Kind = "note"    // Text: what the nemesis or its operator did
	KindRequest   Kind = "request" // a client's
)

// Record is one line. Which fields count is up to Kind. Times are nanoseconds
// since the run began, on a clock that is never stepped.
type Record struct {
	Kind Kind   `json:"k"`
	At   int64  `json:"at"`             // of a request: when it was sent
	Took int64  `json:"took,omitempty"` // until the answer was read, or given up
	Wall int64  `json:"wall,omitempty"` // of a request: the machine's own wall clock at At, nanoseconds since 1970
	Text string `json:"text,omitempty"`

	Seed    uint64   `json:"seed,omitempty"`
	Process int      `json:"p,omitempty"` // counted from 1, over all daemons
	Daemon  string   `json:"daemon,omitempty"`
	Host    int      `json:"host,omitempty"`
	Worker  int64    `json:"worker,omitempty"`
	Owner   string   `json:"owner,omitempty"`
	From    int64    `json:"from,omitempty"`
	To      int64    `json:"to,omitempty"`
	Fault   int      `json:"fault,omitempty"`
	Targets []string `json:"targets,omitempty"` // daemons; empty: what all of them need

	Conn   int    `json:"c,omitempty"`      // of the client's connection, counted from 1
	Stream string `json:"s,omitempty"`      // Snowflake, or the tag of a segment
	Asked  int    `json:"n,omitempty"`      // IDs
	Status int    `json:"status,omitempty"` // of HTTP; 0: there was no whole answer
	Code   string `json:"code,omitempty"`   // of a refusal, or what went wrong with the connection
	IDs    []Run  `json:"ids,omitempty"`    // in the order in which they came
	Bad    string `json:"bad,omitempty"`    // what is wrong with the answer's form
}

// Snowflake is the stream of the snowflake IDs; no tag has this name.
const Snowflake = ":snowflake"

// Until is when a record's time ends.
func (r *Record) Until() int64 { return r.At + r.Took }

// Served tells that IDs came.
func (r *Record) Served() bool { return r.Kind == KindRequest && r.Status == 200 }

// Run is N IDs from Lo on, each one more than the one before. As JSON it is
// [Lo,N], and Lo alone for one ID.
type Run struct{ Lo, N int64 }

// Last is the last of them.
func (r Run) Last() int64 { return r.Lo + r.N - 1 }

// Runs returns ids as runs, in their order.
func Runs(ids []int64) []Run {
	var runs []Run
	for _, id := range ids {
		if n := len(runs); n > 0 && runs[n-1].Lo+runs[n-1].N == id {
			runs[n-1].N++
			continue
		}
		runs = append(runs, Run{Lo: id, N: 1})
	}
	return runs
}
