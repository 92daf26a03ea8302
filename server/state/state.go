// Package state has the words for each state of a daemon: in HTTP answers, in GET
// /api/worker, in `systemctl status`, in the alarm of a refused start, and the exit code
// of the process. Codes, states and exit codes are a contract: add to them, never change
// one.
package state

import (
	"errors"
	"slices"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// Exit codes of a process that an error of this package's table has ended.
const (
	ExitClock     = 3 // the clock can't be trusted
	ExitHeld      = 4 // another process has our worker ID, or our data directory, or has fenced us; or what we have is another cluster's
	ExitExhausted = 5 // no worker ID is left
)

// State is one state of a daemon. A field is empty where the state isn't shown.
type State struct {
	Err error // errors.Is finds the state by it

	Code       string // of the HTTP answer 503
	Message    string // of the same answer
	RetryAfter int    // of the same answer, in seconds

	Worker  string // the worker's state in GET /api/worker and in metrics
	Issuing string // what the worker does, in `systemctl status`
	Clock   string // how its clock is, in `systemctl status`

	Exit  int    // exit code
	Alarm string // alarm code of a start that Err refused
	Start string // what that alarm says
}

// States of a daemon without an error.
//
//nolint:gochecknoglobals // never written to
var (
	Starting = State{Code: "starting", Message: "leafd is starting", RetryAfter: 1, Worker: "starting", Issuing: "starting"}
	Stopping = State{Code: "draining", Message: "leafd is stopping", RetryAfter: 5, Issuing: "stopping"}
	Active   = State{Worker: "live", Issuing: "issues", Clock: "clock ok"}
	// Undecided is Active while no majority of clocks tells whether ours is right.
	Undecided = State{Worker: Active.Worker, Issuing: Active.Issuing, Clock: "clock NOT as some peers'"}
)

// notIssuing is the state of a worker whose error has no row of its own.
var notIssuing = State{Worker: "not_issuing", Issuing: "REFUSES"} //nolint:gochecknoglobals // never written to

// states has the states by their errors. The first match that has the field in question
// counts: what fences comes before the fence, that before the ceiling error that it wraps, and the ceiling before
// the registry that could not record it.
var states = []State{ //nolint:gochecknoglobals // never written to
	{
		Err:  worker.ErrLeaseOver,
		Code: "ceiling_reached", Message: "ZooKeeper has taken no report for the whole lease; IDs resume once it answers", RetryAfter: 30,
		Worker: notIssuing.Worker, Issuing: "REFUSES, its lease is over",
	},
	{
		Err: worker.ErrFenced, Exit: ExitHeld,
		Code: "worker_fenced", Message: "this daemon was displaced: it has stopped issuing until it is sure of a worker ID again", RetryAfter: 3,
		Worker: "fenced", Issuing: "FENCED, issues nothing until a new life begins",
	},
	// Codes of the four that follow are answers of /readyz only: they keep a fenced daemon
	// from beginning a new life.
	{
		Err: worker.ErrClockRefused, Exit: ExitClock,
		Code: "clock_refused", Message: "this daemon was fenced, and its clock is refused: it gets no worker ID until the clock is right", RetryAfter: 10,
		Alarm: "clock_refused", Start: "the clock was refused",
	},
	{
		Err: worker.ErrHeld, Exit: ExitHeld,
		Code: "identity_held", Message: "this daemon was fenced, and another process has its worker ID", RetryAfter: 10,
		Alarm: "identity_held", Start: "another process has this data directory's worker ID",
	},
	{
		Err: worker.ErrExhausted, Exit: ExitExhausted,
		Code: "workers_exhausted", Message: "this daemon was fenced, and no worker ID is left", RetryAfter: 30,
		Alarm: "workers_exhausted", Start: "no worker ID is left",
	},
	{
		Err:  worker.ErrNoCluster,
		Code: "workers_closed", Message: "this daemon was fenced, and ZooKeeper lost data: no worker ID is given out until leafd cluster open", RetryAfter: 30,
		Alarm: "workers_closed", Start: "no worker ID is given out",
	},
	{Err: worker.ErrLocked, Exit: ExitHeld},
	{Err: worker.ErrForeign, Exit: ExitHeld},
	{
		Err:  snowflake.ErrClockBackwards,
		Code: "clock_backwards", Message: "this machine's clock is behind the last ID; IDs resume when it has caught up", RetryAfter: 1,
		Worker: notIssuing.Worker, Issuing: notIssuing.Issuing, Clock: "clock BEHIND the last ID",
	},
	{Err: worker.ErrClockJumped, Worker: notIssuing.Worker, Issuing: notIssuing.Issuing, Clock: "clock JUMPED ahead"},
	{
		Err:  snowflake.ErrCeilingReached,
		Code: "ceiling_reached", Message: "the ceiling could not be recorded ahead of the clock", RetryAfter: 3,
		Worker: notIssuing.Worker, Issuing: "REFUSES, its ceiling can't be recorded",
	},
	{
		// The answer is one of /readyz only: IDs are still issued, and still unique.
		Err:  worker.ErrPeersDisagree,
		Code: "clock_offset", Message: "most daemons have another time than this machine's clock", RetryAfter: 10,
		Worker: "not_ready", Issuing: "issues, not ready", Clock: "clock NOT as the peers'",
	},
	{
		Err:  worker.ErrUnreachable,
		Code: "registry_unavailable", Message: "the registry of workers can't be reached; IDs are issued without it", RetryAfter: 3,
		Alarm: "registry_unreachable", Start: "ZooKeeper can't be reached, and the local record is not enough",
	},
}

// Answers returns the states that are HTTP answers to their error, in the order of
// precedence.
func Answers() []State {
	var all []State
	for _, s := range states {
		if s.Code != "" {
			all = append(all, s)
		}
	}
	return all
}

// Workers returns the values of State.Worker, that of a daemon without a worker ID first.
func Workers() []string {
	all := []string{Starting.Worker, Active.Worker, notIssuing.Worker}
	for _, s := range states {
		if s.Worker != "" && !slices.Contains(all, s.Worker) {
			all = append(all, s.Worker)
		}
	}
	return all
}

// OfWorker returns the state of a worker whose check returned err.
func OfWorker(err error) State {
	if err == nil {
		return Active
	}
	if s, ok := first(err, func(s *State) bool { return s.Worker != "" }); ok {
		return s
	}
	return notIssuing
}

// RefusedStart returns the state of a start that failed with err; ok is false where err
// has no alarm.
func RefusedStart(err error) (s State, ok bool) {
	return first(err, func(s *State) bool { return s.Alarm != "" })
}

// Exit returns the exit code of a process that ends with err; 0 where err has none.
func Exit(err error) int {
	s, _ := first(err, func(s *State) bool { return s.Exit != 0 })
	return s.Exit
}

func first(err error, has func(*State) bool) (State, bool) {
	for i := range states {
		if has(&states[i]) && errors.Is(err, states[i].Err) {
			return states[i], true
		}
	}
	return State{}, false
}
