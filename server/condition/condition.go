// Package condition has the one table of what can be wrong with a daemon: for each code the error
// by which a part tells it, how bad it is, the words for people, the HTTP answer and the exit code
// of the process. Each part tells its own conditions when it is asked; package alarm compares,
// and server shows them. Codes, answers and exit codes are a contract: add to them, never change
// one. docs/ALARMS.md says what each code does to IDs.
package condition

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

// Code names a kind of condition. Programs compare codes.
type Code string

// Severity is how bad a condition is.
type Severity string

// The severities, the least first.
const (
	Note    Severity = "note"    // nothing is wrong, such as a start that waits
	Warning Severity = "warning" // a line of the log
	Alarm   Severity = "alarm"   // a person has to look at it: log, counter, webhook
)

// rank orders severities.
func (s Severity) rank() int { return slices.Index([]Severity{Note, Warning, Alarm}, s) }

// Kinds is what a condition stops at this daemon.
type Kinds uint8

// Daemon is what plain GET /readyz asks for where snowflake IDs are enabled: they are served, and the
// data directory keeps what it has to. What all daemons share, such as the database, stops none of them.
const (
	Snowflake Kinds = 1 << iota
	Segment
	Daemon

	All = Snowflake | Segment | Daemon
)

// Exit codes of a process that an error of the table has ended.
const (
	ExitClock     = 3 // the clock can't be trusted
	ExitHeld      = 4 // another process has our worker ID, or our data directory, or has fenced us; or what we have is another cluster's
	ExitExhausted = 5 // no worker ID is left
)

// Info is one row of the table.
type Info struct {
	Code     Code
	Is       error // by it a part tells the condition, and errors.Is finds it; nil: it is told by its code
	Severity Severity
	Stops    Kinds         // clients of these should ask another daemon
	After    time.Duration // how long it lasts before the log and the webhook are told
	Private  bool          // its cause is for the log alone
	Event    bool          // it is over when it is told, and stands for EventStands
	Headline string        // what is wrong, in a few words
	Action   string        // what to do about it

	// The answer 503 with Code to requests and to GET /readyz, where RetryAfter is not 0. Where Message is "" it is Headline, and
	// not for requests for snowflake IDs.
	Message    string
	RetryAfter int // seconds
	Exit       int // of a start that ends with Is
}

// Condition is one thing that is wrong, now.
type Condition struct {
	*Info

	Stops   Kinds         // as Info has it; also of any cause that keeps a daemon from having a worker ID
	Subject string        // a tag, a disk, a server; "": the daemon
	Err     error         // why; nil: the headline says it all
	Cause   string        // Err, in words that every client may read
	Since   time.Duration // on the monotonic clock
}

// EventStands is how long an event of severity Alarm stands as a condition.
const EventStands = 10 * time.Minute

// Of returns the condition of the row with the sentinel is.
func Of(is error, subject string, err error) Condition {
	if row := find(is); row != nil {
		return row.of(subject, err)
	}
	return ByCode(NotReady, subject, err)
}

// ByCode returns the condition of a code.
func ByCode(code Code, subject string, err error) Condition {
	for i := range table {
		if table[i].Code == code {
			return table[i].of(subject, err)
		}
	}
	return (&Info{Code: code, Severity: Alarm, Headline: string(code)}).of(subject, err)
}

// Unfit returns the condition of a life that could not begin because of err; none where the table has none for it.
func Unfit(err error) []Condition {
	if row := find(err); row != nil {
		return []Condition{{Info: row, Stops: Snowflake | Daemon, Err: err}}
	}
	return nil
}

// find returns the first row with a sentinel that err is, and with a code.
func find(err error) *Info {
	i := slices.IndexFunc(table, func(row Info) bool { return row.Is != nil && row.Code != "" && errors.Is(err, row.Is) })
	if i < 0 {
		return nil
	}
	return &table[i]
}

func (i *Info) of(subject string, err error) Condition {
	return Condition{Info: i, Stops: i.Stops, Subject: subject, Err: err}
}

// NotReady reports whether clients of one kind of IDs at least should ask another daemon.
func (c *Condition) NotReady() bool { return c.Stops != 0 }

// Sort puts the worst first: what stops something, then by severity, then as the table has them.
func Sort(all []Condition) {
	rank := func(c Condition) int {
		at := -len(table) * c.Severity.rank()
		for i := range table {
			if &table[i] == c.Info {
				at += i
			}
		}
		if !c.NotReady() {
			at += 3 * len(table) // behind those of every severity
		}
		return at
	}
	slices.SortStableFunc(all, func(a, b Condition) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Subject, b.Subject)) })
}

// Answers returns the rows that have an answer, in the order of precedence.
func Answers() []Info {
	return slices.DeleteFunc(slices.Clone(table), func(row Info) bool { return row.RetryAfter == 0 })
}

// Active is the worker's state where nothing stops snowflake IDs.
const Active = "live"

// WorkerState returns the worker's state in GET /api/worker and in metrics: Active, or the code of what stops it.
func WorkerState(all []Condition) string {
	for _, c := range all {
		if c.Stops&Snowflake != 0 {
			return string(c.Code)
		}
	}
	return Active
}

// WorkerStates returns the values of WorkerState, that of a daemon without a worker ID first.
func WorkerStates() []string {
	states := []string{string(StartingUp), Active}
	for _, row := range table {
		if row.Stops&Snowflake != 0 && !slices.Contains(states, string(row.Code)) {
			states = append(states, string(row.Code))
		}
	}
	return states
}

// Exit returns the exit code of a process that ends with err; 0 where err has none.
func Exit(err error) int {
	for _, row := range table {
		if row.Exit != 0 && errors.Is(err, row.Is) {
			return row.Exit
		}
	}
	return 0
}

// Clip returns the beginning of a text that is longer than most bytes.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Rows returns the rows that have a code, in the order of the table.
func Rows() []Info {
	return slices.DeleteFunc(slices.Clone(table), func(row Info) bool { return row.Code == "" })
}
