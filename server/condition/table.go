package condition

import (
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// freeDisk is what to do about a disk that takes no record.
const freeDisk = "Where the error names a disk, free or fix it; leafd goes on by itself."

// table has the conditions, the worst first. The row that counts is the first that has
// what is asked for, and an Is that matches the error.
var table = []Info{ //nolint:gochecknoglobals // never written to
	{
		Code: StartingUp, Severity: Note, Stops: Snowflake | Daemon, Headline: "leafd is starting",
		Message: "leafd is starting", RetryAfter: 1,
	},
	{
		Code: Draining, Severity: Note, Stops: All, Headline: "leafd is stopping",
		Message: "leafd is stopping", RetryAfter: 5,
	},
	{
		Code: WorkerFenced, Is: ErrFencedForGood, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline:   "fenced for good: ZooKeeper's root is of another cluster, or has another layout",
		Action:     "Find out whether --zk and --zk-root are wrong, or leafd cluster init was run after a loss of data. Restart the daemon with its own root. Keep the data directory: it proves the worker ID.",
		RetryAfter: 30,
	},
	{
		Code: "lease_over", Is: worker.ErrLeaseOver, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline: "the lease is over: nothing is issued until ZooKeeper answers",
		Action:   "Bring ZooKeeper back; issuing resumes by itself. If it has lost data, see registry_forgot.",
		Message:  "ZooKeeper has taken no report for the whole lease; IDs resume once it answers", RetryAfter: 30,
	},
	// The four that follow keep a displaced daemon from beginning a new life, or one from starting.
	{
		Code: "clock_refused", Is: worker.ErrClockRefused, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline:   "the clock is refused: the daemon gets no worker ID until it is right",
		Action:     "Fix the clock, or wait until it has caught up. Never delete the record: IDs would repeat.",
		RetryAfter: 10, Exit: ExitClock,
	},
	{
		Code: WorkerFenced, Is: worker.ErrHeld, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline:   "another process has this daemon's worker ID",
		Action:     "Two ZooKeepers have one cluster's data: find that of the peer that the error names. Stop one of the two daemons, and give it an empty --data-dir.",
		RetryAfter: 10, Exit: ExitHeld,
	},
	{
		Code: "workers_closed", Is: worker.ErrExhausted, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline:   "no worker ID is left",
		Action:     "leafd worker list shows the holders. leafd worker release --force frees the worker ID of a host that is gone for good.",
		RetryAfter: 30, Exit: ExitExhausted,
	},
	{
		Code: "workers_closed", Is: worker.ErrNoCluster, Severity: Alarm,
		Headline:   "no new worker ID is given out",
		Action:     "Start the daemons that had worker IDs: they put their cluster back. Once each is back or gone for good, run leafd cluster open. Where no daemon has ever run, see leafd cluster --help.",
		RetryAfter: 30,
	},
	{
		Code: WorkerFenced, Is: worker.ErrFenced, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline: "fenced: nothing is issued until a new life of the daemon begins",
		Action:   "Find the other process that the error names: two daemons may run on copies of one data directory.",
		Message:  "this daemon was displaced: it has stopped issuing until it is sure of a worker ID again", RetryAfter: 3, Exit: ExitHeld,
	},
	{Is: worker.ErrLocked, Exit: ExitHeld},
	{Is: worker.ErrForeign, Exit: ExitHeld},
	{
		Code: ClockBackwards, Is: snowflake.ErrClockBackwards, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline: "the clock is behind the last ID: snowflake IDs are refused",
		Action:   "Nothing: issuing resumes by itself. Have NTP slew the clock instead of stepping it.",
		Message:  "this machine's clock is behind the last ID; IDs resume when it has caught up", RetryAfter: 1,
	},
	{
		Code: ClockBackwards, Is: ErrClockForAMoment, Severity: Alarm, Event: true,
		Headline: "the clock was behind the last ID for a moment: calls were refused",
		Action:   "Have NTP slew the clock instead of stepping it.",
	},
	{
		Code: "clock_jumped", Is: worker.ErrClockJumped, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline:   "the clock jumped ahead: snowflake IDs end at the ceiling recorded before",
		Message:    "this machine's clock jumped ahead, and nothing confirms it; IDs resume when it is confirmed, or right again",
		Action:     "Fix the clock; issuing resumes by itself. If the clock is right now, restart leafd.",
		RetryAfter: 3,
	},
	{
		Code: "clock_behind", Is: worker.ErrClockBehind, Severity: Warning,
		Headline: "the clock was set back: IDs go on with times ahead of it",
		Action:   "Have NTP slew the clock instead of stepping it: what is more than --max-ahead refuses IDs.",
	},
	{
		Code: "clock_jumped", Is: worker.ErrClockUnproven, Severity: Alarm,
		Headline: "since the last life the clock moved further ahead than the boot-time clock allows, and no peer confirms it",
		Action:   "Compare the clock with one that is right. If it is wrong, stop leafd, fix the clock and start again: that waits until the clock has caught up. If it is right, restart leafd.",
	},
	{
		Code: CeilingReached, Is: snowflake.ErrCeilingReached, Severity: Alarm, Stops: Snowflake | Daemon, After: time.Second,
		Headline: "the ceiling can't be recorded: no snowflake ID is issued",
		Action:   freeDisk,
		Message:  "the ceiling could not be recorded ahead of the clock", RetryAfter: 3,
	},
	{
		Code: CeilingReached, Is: worker.ErrNotRecorded, Severity: Alarm,
		Headline: "the ceiling can't be recorded: issuing ends when the clock reaches it",
		Action:   freeDisk,
	},
	{
		Code: "time_exhausted", Is: snowflake.ErrTimeExhausted, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline: "the clock is outside the times that the layout has: no snowflake ID is issued",
		Action:   "Compare the clock with one that is right, and fix it. If it is right, the layout's times are used up: its IDs have ended for good. Go on with segment IDs, or with a new cluster whose layout and epoch have IDs above all of these.",
		Message:  "this machine's clock is outside the times that the layout has", RetryAfter: 30,
	},
	{
		Code: NotReady, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline:   "snowflake IDs are refused",
		Action:     "The error says which.",
		RetryAfter: 3,
	},
	{
		Code: "peers_disagree", Is: worker.ErrPeersDisagree, Severity: Alarm, Stops: Snowflake | Daemon,
		Headline: "most daemons have another time: not ready",
		Action:   "Compare with leafd clock check, and fix the clock that is wrong.",
		Message:  "most daemons have another time than this machine's clock", RetryAfter: 10,
	},
	{
		Code: "segment_mark", Is: segment.ErrMark, Severity: Alarm, Stops: Segment | Daemon,
		Headline:   "the data directory takes no record of used ranges: no new range is used",
		Action:     freeDisk,
		RetryAfter: 3,
	},
	{
		Code: SegmentStore, Is: segment.ErrReading, Severity: Note, Stops: Segment | Daemon,
		Headline:   "the database is being asked for the first time",
		RetryAfter: 1,
	},
	{
		Code: SegmentStore, Is: segment.ErrUnavailable, Severity: Alarm, Stops: Segment, After: time.Second,
		Headline: "segment IDs can't be served yet",
		Action:   "Bring back what the error names: the database, or ZooKeeper.",
		Message:  "no range of this tag is in memory and none could be fetched", RetryAfter: 1,
	},
	{
		Code: "registry_unreachable", Is: worker.ErrLeaseHalf, Severity: Alarm,
		Headline: "half of the lease has passed without ZooKeeper",
		Action:   "Bring ZooKeeper back before that time. Restart no daemon, and lose no data directory, until then.",
	},
	{
		Code: "registry_unreachable", Is: worker.ErrUnreachable, Severity: Alarm,
		Headline: "ZooKeeper takes no report",
		Action:   "Bring ZooKeeper back before the time that the error names: IDs end then.",
		Message:  "the registry of workers can't be reached; IDs are issued without it", RetryAfter: 3,
	},
	{
		Code: "registry_unreachable", Is: worker.ErrRefused, Severity: Alarm,
		Headline: "ZooKeeper refuses the reports",
		Action:   "The error says why: a quota, an ACL, credentials, or a limit of ZooKeeper's. Change that before the time that it names: IDs end then.",
		Message:  "the registry of workers refuses reports; IDs are issued without it", RetryAfter: 3,
	},
	{
		Code: "peers_undecided", Is: worker.ErrPeersUndecided, Severity: Alarm,
		Headline: "the clocks differ, and no majority says which are wrong: going on",
		Action:   "Compare with leafd clock check on each machine, and fix the clock that is wrong.",
	},
	{
		Code: "peers_silent", Is: worker.ErrPeersSilent, Severity: Alarm, Private: true,
		Headline: "no peer tells its clock: ours goes unchecked",
		Action:   "Let the daemons reach each other's --advertise, and verify with leafd clock check.",
	},
	{
		Code: SegmentStore, Is: segment.ErrStore, Severity: Alarm,
		Headline:   "the database gives no range: tags have what is in memory",
		Action:     "The error says what is wrong: bring the database back, or lead --mysql to its primary. Put a table that is gone back; make no new one.",
		RetryAfter: 1,
	},
	{
		Code: SegmentStore, Is: segment.ErrFetch, Severity: Alarm,
		Headline:   "the tag gets no range: it has what is in memory",
		Action:     "The error says why.",
		RetryAfter: 1,
	},
	{
		Code: SegmentStore, Is: segment.ErrGuardConflict, Severity: Alarm,
		Headline:   "the tag's high mark is written by others again and again",
		Action:     "Nothing, while it ends by itself. Else find out what writes below segment_high in ZooKeeper.",
		RetryAfter: 1,
	},
	{
		Code: SegmentStore, Is: segment.ErrLocked, Severity: Alarm,
		Headline:   "another transaction has locked the tag's row: the tag has what is in memory",
		Action:     "Find the transaction in the database (information_schema.INNODB_TRX), and end it. Other tags are not concerned.",
		RetryAfter: 1,
	},
	{
		Code: SegmentRegressed, Is: ErrMovedForward, Severity: Alarm, Event: true,
		Headline: "the table has lost commits: max_id was moved forward",
		Action:   "Find out why: the database lost commits in a crash, was restored, or the row was set back.",
	},
	{
		Code: "database_changed", Is: ErrDatabaseChanged, Severity: Warning, Event: true,
		Headline: "ranges come from another server of the database",
		Action:   "Nothing, where a failover was meant.",
	},
	{
		Code: SegmentUnguarded, Is: segment.ErrUnguarded, Severity: Alarm, After: 2 * time.Second,
		Headline: "ZooKeeper is away: ranges are fetched without it",
		Action:   "Bring ZooKeeper back. Let no database fail over meanwhile.",
	},
	{
		Code: SegmentUnguarded, Is: segment.ErrGuardAway, Severity: Alarm, After: 2 * time.Second,
		Headline:   "ZooKeeper is away, and required: no range is fetched",
		Action:     "Bring ZooKeeper back. Tags are served from memory meanwhile.",
		RetryAfter: 3,
	},
	{
		Code: SegmentBadRow, Is: segment.ErrBadRow, Severity: Alarm,
		Headline:   "the row can't be used: its ranges are refused",
		Action:     "Fix what the error names.",
		RetryAfter: 3,
	},
	{
		Code: SegmentBadRow, Is: segment.ErrGuardRefused, Severity: Alarm,
		Headline:   "ZooKeeper refuses the tag's high mark: its ranges are refused",
		Action:     "Do as the error says.",
		RetryAfter: 3,
	},
	{
		Code: RowMissing, Is: segment.ErrRowMissing, Severity: Warning,
		Headline:   "the table shows no row of the tag, and nothing tells that it was deleted: it has what is in memory",
		Action:     "Put the row back. If the tag was deleted on purpose, tell so: leafd segment delete TAG --yes, or without --zk DELETE /api/segments/TAG at this daemon.",
		RetryAfter: 3,
	},
	{
		Code: RowMissing, Is: segment.ErrRowsMissing, Severity: Alarm,
		Headline: "the table shows most tags no more: they have what is in memory",
		Action:   "The table was swapped, restored or emptied: put its rows back, or correct --mysql. Make no new table.",
	},
	{
		Code: "foreign_fetches", Is: segment.ErrForeign, Severity: Warning,
		Headline: "ranges of the tag are taken that no high mark in ZooKeeper covers",
		Action: "A Java Leaf, another --zk-root or a daemon without --zk fetches from the table, or a daemon did while ZooKeeper was away. " +
			"Where it is none that you know, find it: a database that loses commits would repeat its IDs.",
	},
	{
		Code: "certificate", Is: ErrCertificateRefused, Severity: Alarm,
		Headline: "the changed certificate can't be used: the one before stays",
		Action:   "Fix the files as the error says; they are taken within seconds.",
	},
	{
		Code: "certificate", Is: ErrCertificateExpiring, Severity: Alarm,
		Headline: "the certificate ends soon, or has ended",
		Action:   "Replace the files of the certificate and its key.",
	},
	{
		Code: ReloadRefused, Severity: Alarm,
		Headline: "a reload was refused: the settings of before stay in force, and the next restart ends with exit code 2",
		Action:   "Correct what the error names; leafd config checks it. Then reload again.",
	},
	{
		Code: RegistryForgot, Severity: Alarm, Event: true,
		Headline: "ZooKeeper has lost data: each daemon puts its worker ID back",
		Action:   "Find out what did it. Only where a backup of ZooKeeper was put back, and leafd cluster open was not run since, run leafd cluster recover. Once leafd worker list shows every daemon that is not gone for good, run leafd cluster open.",
	},
	{
		Code: WorkerIDLost, Severity: Alarm, Event: true,
		Headline: "our worker ID is lost: this data directory gets another one",
		Action:   "Nothing if the daemon was down beyond its lease, or the worker ID was released. Else find out what emptied ZooKeeper, or set it back.",
	},
	{
		Code: WorkerIDLost, Is: ErrRecordSetAside, Severity: Alarm, Event: true,
		Headline: "the local record was set aside: this data directory gets another worker ID",
		Action:   "Find out why. Copy no data directories.",
	},
	{
		Code: AlarmsUndelivered, Severity: Warning, Private: true, After: 10 * time.Second,
		Headline: "alarms are not delivered to the webhook",
		Action:   "See the log for the reason.",
	},
}
