package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
)

// Action is the next thing that a life does about its worker ID.
type Action string

// Actions.
const (
	Await        Action = "wait for a cluster"             // there is none to join
	MakeRoot     Action = "make the root again"            // it is gone: as the same cluster
	Repair       Action = "make the entries' parent again" // it is gone, or another one: make and name it
	NoteLoss     Action = "note the loss"                  // the registry lost what it had acknowledged: note it in the root
	RaiseSession Action = "raise the longest session"      // ours is longer than the root's longest: write that
	Watch        Action = "watch the live node"            // a life of our instance is shown as live: see whether it is
	Report       Action = "report"                         // running: write the entry
	Release      Action = "release"                        // stopping: write it as released
	Resume       Action = "resume"                         // starting: write the entry, and issue
	PutBack      Action = "put the entry back"             // write the entry that the registry lost; a start settles then
	Forget       Action = "forget the worker ID"           // the record's piece has ended, and the registry lost it
	Enroll       Action = "enroll"                         // claim a worker ID, settle, have it promoted
	GiveUp       Action = "give the worker ID up"          // it is another's: forget it
	SetAside     Action = "set the record aside"           // it is a copy of another directory's: be a new instance
	Fence        Action = "fence"                          // running: the worker ID, or the instance, is another's: end this life
	RunOut       Action = "go on to the limit"             // running: the piece ends too soon to be prolonged
	Refuse       Action = "leave an empty ensemble alone"  // the root is absent where this record has never seen it
)

// FixesRoot reports whether a changes the root, by Registry.FixRoot.
func (a Action) FixesRoot() bool {
	return slices.Contains([]Action{Await, MakeRoot, Repair, NoteLoss, RaiseSession}, a)
}

// Moment is when a decision is made, and in what part of a life.
type Moment struct {
	Clock   clock.Millis  // as the guards judged it
	Margin  time.Duration // how far apart two clocks may be: twice the threshold
	Running bool          // this life issues under the record's worker ID
	Watched time.Duration // for how long the entry and the live node stood as they are, since this life saw them first
	Stirred bool          // the entry was written since, not by this life
	Strange bool          // none of the settings' servers is one at which the record has seen its root
}

// row is what the record says.
type row int

const (
	rowRunning      row = iota // active, it reaches, and this life issues by it
	rowStopping                // released in the file, it reaches, and this life has issued by it
	rowStarting                // active, and it reaches
	rowRunningEnded            // ended or nearly, and this life issues by it
	rowEnded                   // active, ended or nearly
	rowReleased                // released, in the file at least; the entry is its own while that is active
	rowNone                    // no worker ID, or a claim that was never confirmed
	rows
)

// column is what the entry at the path of the record's worker ID is to the record.
type column int

const (
	columnLost    column = iota // it is before what was acknowledged: absent, our own and older, or another's; or it can't be read
	columnOwn                   // our own, of a life that we know
	columnUnknown               // our own, of a life that we don't know, and not older
	columnAfter                 // it is after ours: another's, or our own, released by an operator's hand while we have it
	columns
)

// decisions is the table: what to do, by what the record and the entry say.
//
//	released-never-resumes  A record that is released, or past its limit, never resumes.
//	claim-again  A claiming record never resumes: it claims again, also over an entry of its own
//	    that is active, of a promotion whose answer was lost. Nothing was issued under that.
//	set-aside-always  A start whose own entry was written by another life, before it looks
//	    or while it watches, sets its record aside: in every row, a claim's too.
//	late-release  A release that the file alone has is written before anything else is
//	    claimed: else the entry counts as live, and its worker ID as taken, up to its limit.
//	loss-before-copy  Loss is judged before copy, and succession is the order of floors.
//	-  An instance with an acknowledged, unreleased piece that reaches beyond now keeps
//	    it, against everything but a later piece, an operator's hand, and a copy of its
//	    own directory: since it may start without the registry.
var decisions = [rows][columns]Action{ //nolint:gochecknoglobals // never written to
	//                 lost     own     unknown   after
	rowRunning:      {PutBack, Report, Fence, Fence},
	rowStopping:     {RunOut, Release, Fence, Fence},
	rowStarting:     {PutBack, Resume, SetAside, GiveUp},
	rowRunningEnded: {RunOut, RunOut, Fence, Fence},
	rowEnded:        {Forget, Enroll, SetAside, GiveUp},
	rowReleased:     {Forget, Release, SetAside, Enroll},
	rowNone:         {Enroll, Enroll, SetAside, Enroll},
}

// Decide returns what a life does next, by its record and what the registry shows. It keeps:
//
//	ended-judges-loss  Every record that was ever acknowledged judges loss, released and ended ones
//	    too: it shows one where its entry is absent, or before what was acknowledged.
//	loss-noted-first  A loss is noted before anything else is done about it, unless it was since the
//	    record knew (Root.Losses).
//	right-ensemble  A root that is absent is made again only where the record has seen it:
//	    through one of the servers that it names.
//	damaged-put-back  Our entry, where it can't be read, was edited by hand, and proves nothing:
//	    a record that reaches writes it again, and notes no loss.
//	-  The root has the longest session before anything is issued or claimed.
//	-  Only the entry at the path of the record's own worker ID tells whether it was lost.
//	-  A start that finds another life shown as live under its instance watches it. A life of this directory
//	    is dead, since we hold the directory's lock, and its node stands until its session ends; but the
//	    directory may be a copy, and the original alive: then it reports while we watch, and the entry
//	    changes. A life that issues knows a copy by the entry alone.
func Decide(r Record, s Snapshot, now Moment) Action {
	member := r.Cluster != ""
	switch root := s.Root; {
	case root == nil && !member:
		return Await
	case root == nil && now.Strange:
		return Refuse
	case root == nil:
		return MakeRoot
	case root.Parent == 0 || root.Parent != s.Parent:
		return Repair
	case member && root.Losses < r.Losses:
		return NoteLoss
	}
	row := rowOf(r, now)
	column := columnOf(r, row, s.Entry, now)
	if column == columnLost && s.Root.Losses <= r.Losses && !s.Entry.damaged() {
		return NoteLoss
	}
	do := decisions[row][column]
	starts := !now.Running && (do == Resume || do == Enroll || do == PutBack || do == Release)
	switch {
	case starts && now.Stirred && column == columnOwn:
		return SetAside
	case starts && s.Live != "" && s.Live != r.Owner && r.WorkerID >= 0 && now.Watched < watchFor:
		return Watch
	case s.Granted > s.Root.LongestSession() && (starts && do != Release || do == Report || do == PutBack):
		return RaiseSession
	}
	return do
}

func rowOf(r Record, now Moment) row {
	reaches := now.Clock.Add(now.Margin) < r.AckedLimit // ending-piece
	switch {
	case r.WorkerID < 0 || r.State == "" || r.State == RecordClaiming:
		return rowNone
	case now.Running && !reaches:
		return rowRunningEnded
	case now.Running && r.State == RecordReleasing:
		return rowStopping
	case now.Running:
		return rowRunning
	case r.State != RecordActive:
		return rowReleased
	case reaches:
		return rowStarting
	default:
		return rowEnded
	}
}

func columnOf(r Record, row row, e *Entry, now Moment) column {
	own := e != nil && e.Instance == r.Instance
	switch {
	case row == rowNone && !own: // it was acknowledged nothing that could be lost
		return columnAfter
	case row == rowNone && r.Knows(e.Owner):
		return columnOwn
	case row == rowNone:
		return columnUnknown
	case e == nil, e.damaged(), own && r.outlives(*e), !own && r.precedes(*e):
		return columnLost
	case own && !r.Knows(e.Owner):
		return columnUnknown
	case own && now.Running && e.Floor > r.Floor: // a life of ours had a later piece, of which the record lost its word
		return columnUnknown
	case own && (e.State == StateActive || e.State == StateClaiming && row != rowReleased || row == rowEnded):
		return columnOwn
	default:
		return columnAfter
	}
}

// damaged reports whether e is there and can't be read.
func (e *Entry) damaged() bool { return e != nil && e.State == StateDamaged }

// precedes reports whether e, another's, is before r's piece. Nothing is issued under a claim: it is judged
// by what it was made over.
func (r Record) precedes(e Entry) bool {
	switch over := e.Over; {
	case e.State != StateClaiming && e.Limit > e.Floor:
		return cmp.Or(cmp.Compare(e.Floor, r.Floor), cmp.Compare(e.Limit, r.Limit)) < 0
	case e.Floor >= r.Limit:
		return false
	case over == nil:
		return true
	case over.Instance == r.Instance: // an operator may have released it
		return r.outlives(over.entry())
	default:
		return r.precedes(over.entry())
	}
}

// outlives reports whether our own entry e is older than what the registry has acknowledged: before
// it in the order of floor, limit and life number (loss-before-copy).
func (r Record) outlives(e Entry) bool {
	limit := e.Limit
	switch {
	case r.State == RecordReleased:
		return e.Floor < r.Floor || e.Floor == r.Floor && e.State != StateReleased
	case e.State == StateReleased && e.Floor == r.Floor: // our own release, or an operator's
		return false
	case e.State == StateClaiming:
		limit = 0
	}
	return cmp.Or(cmp.Compare(e.Floor, r.Floor), cmp.Compare(limit, r.AckedLimit), cmp.Compare(e.Life, r.Acked.Number)) < 0
}

// watchFor is longer than a life that issues leaves its entry as it is.
const watchFor = DefaultReportInterval + time.Second
