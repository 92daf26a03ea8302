package condition

import (
	"errors"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

// The codes.
const (
	StartingUp          Code = "starting"
	Draining            Code = "draining"
	ClockBackwards      Code = "clock_backwards"
	ClockJumped         Code = "clock_jumped"
	ClockRefused        Code = "clock_refused"
	ReportFailing       Code = "report_failing"
	WorkerFenced        Code = "worker_fenced"
	WorkerFencedForGood Code = "worker_fenced_for_good"
	LeaseOver           Code = "lease_over"
	LeaseHalf           Code = "lease_half_over"
	WorkerIDLost        Code = "worker_id_lost"
	RecordSetAside      Code = "record_set_aside"
	IssuingStalled      Code = "issuing_stalled"
	IdentityHeld        Code = "identity_held"
	WorkersExhausted    Code = "workers_exhausted"
	WorkersClosed       Code = "workers_closed"
	RegistryUnreachable Code = "registry_unreachable"
	RegistryDataLost    Code = "registry_forgot"
	PeersDisagree       Code = "peers_disagree"
	PeersUndecided      Code = "peers_undecided"
	PeersSilent         Code = "peers_silent"
	SegmentStore        Code = "segment_store"
	SegmentRegressed    Code = "segment_regressed"
	SegmentUnguarded    Code = "segment_unguarded"
	SegmentBadRow       Code = "segment_bad_row"
	SegmentRowMissing   Code = "segment_row_missing"
	SegmentMark         Code = "segment_mark"
	SegmentTagsGone     Code = "segment_tags_gone"
	SegmentTables       Code = "segment_tables_differ"
	CertificateRefused  Code = "certificate_refused"
	CertificateExpiring Code = "certificate_expiring"
	AlarmsUndelivered   Code = "alarms_undelivered"
)

// Sentinels of conditions that no package below has an error for.
var (
	// ErrFencedForGood is of a displaced life that no other may follow.
	ErrFencedForGood = errors.New("fenced for good")
	// ErrMovedForward is of a tag that had its max_id moved forward by a fetch.
	ErrMovedForward = errors.New("max_id moved forward")
	// ErrClockForAMoment is of calls that were refused while the clock was behind.
	ErrClockForAMoment = errors.New("clock behind for a moment")
	// ErrCertificateRefused and ErrCertificateExpiring are told by server.Certificates.
	ErrCertificateRefused  = errors.New("changed certificate refused")
	ErrCertificateExpiring = errors.New("certificate ends soon")
)

// freeDisk is what to do about a disk that takes no record.
const freeDisk = "Free or fix the disk that the line names; leafd goes on by itself."

// table has the conditions, the worst first. The row that counts is the first that has
// what is asked for, and an Is that matches the error.
var table = []Info{ //nolint:gochecknoglobals // never written to
	{
		Code: StartingUp, Severity: Note, NotReady: true, Headline: "leafd is starting",
		Answer: "starting", Message: "leafd is starting", RetryAfter: 1, Worker: Starting,
	},
	{
		Code: Draining, Severity: Note, NotReady: true, Headline: "leafd is stopping",
		Answer: "draining", Message: "leafd is stopping", RetryAfter: 5,
	},
	{
		Code: WorkerFencedForGood, Is: ErrFencedForGood, Severity: Alarm, NotReady: true,
		Headline: "fenced for good: ZooKeeper's root is of another cluster, or has another layout",
		Meaning:  "The daemon was displaced, and begins no new life: the root that --zk leads to is of another cluster than its data directory, or has another layout, epoch or path. It issues no snowflake ID until it is restarted; segments are served.",
		Action:   "Find out why the root is another one: --zk or --zk-root may lead to the wrong ensemble, or leafd cluster init was run where data was lost. Lead the daemon back to its own root, and restart it. Keep the data directory: it is the proof of its worker ID.",
		Answer:   "worker_fenced", RetryAfter: 30, Worker: "fenced",
	},
	{
		Code: LeaseOver, Is: worker.ErrLeaseOver, Severity: Alarm, NotReady: true,
		Headline: "the lease is over: nothing is issued until ZooKeeper answers",
		Meaning:  "ZooKeeper has taken no report for the whole lease (--lease), or has lost data so late in it that the worker ID was not put back: beyond its limit it may be another's. No snowflake ID is issued until ZooKeeper answers, and a new life begins.",
		Action:   "Bring ZooKeeper back; issuing resumes by itself. Where ZooKeeper has lost data, see registry_forgot.",
		Answer:   "ceiling_reached", Message: "ZooKeeper has taken no report for the whole lease; IDs resume once it answers", RetryAfter: 30, Worker: notIssuing,
	},
	// The four that follow keep a displaced daemon from beginning a new life, or one from starting.
	{
		Code: ClockRefused, Is: worker.ErrClockRefused, Severity: Alarm, NotReady: true,
		Headline: "the clock is refused: the daemon gets no worker ID until it is right",
		Meaning:  "The start was refused (exit 3), or a later life: the clock is behind the time recorded before, or the peers have another time. Nothing was recorded.",
		Action:   "Fix the clock, or wait until it has caught up. Never delete the record: IDs would repeat.",
		Answer:   "clock_refused", RetryAfter: 10, Exit: ExitClock,
	},
	{
		Code: IdentityHeld, Is: worker.ErrHeld, Severity: Alarm, NotReady: true,
		Headline: "another process has this daemon's worker ID",
		Meaning:  "A life could not begin (at the start: exit 4): a peer says that it issues under this daemon's worker ID.",
		Action:   "Find out which ZooKeeper the peer that the line names belongs to: two of them have one cluster's data. Stop one of the two daemons, and give it an empty --data-dir.",
		Answer:   "identity_held", RetryAfter: 10, Exit: ExitHeld,
	},
	{
		Code: WorkersExhausted, Is: worker.ErrExhausted, Severity: Alarm, NotReady: true,
		Headline: "no worker ID is left",
		Meaning:  "The start was refused (exit 5), or a later life: every worker ID of the layout is taken. The line's error says when the next one comes back.",
		Action:   "leafd worker list shows their holders, and until when. leafd worker release --force frees that of a host that is gone for good.",
		Answer:   "workers_exhausted", RetryAfter: 30, Exit: ExitExhausted,
	},
	{
		Code: WorkersClosed, Is: worker.ErrNoCluster, Severity: Alarm,
		Headline: "no new worker ID is given out",
		Meaning:  "There is no cluster, or ZooKeeper lost data and no worker ID is given out until every lost one has ended, at the time that the line names: no new daemon starts before (exit 1). Those that have a worker ID issue.",
		Action:   "Start the daemons that had worker IDs: they put their cluster back. Once each is back or gone for good: leafd cluster open. A new ensemble gets a cluster from leafd cluster init.",
		Answer:   "workers_closed", RetryAfter: 30,
	},
	{
		Code: WorkerFenced, Is: worker.ErrFenced, Severity: Alarm, NotReady: true,
		Headline: "fenced: nothing is issued until a new life of the daemon begins",
		Meaning:  "The daemon was displaced: another process has its data directory, its entry in ZooKeeper or its worker ID. It issues nothing until, seconds later, it begins a new life in the same process, with another worker ID where its own is lost.",
		Action:   "Find the other process by the line's error: two daemons may run on copies of one data directory.",
		Answer:   "worker_fenced", Message: "this daemon was displaced: it has stopped issuing until it is sure of a worker ID again", RetryAfter: 3, Worker: "fenced", Exit: ExitHeld,
	},
	{Is: worker.ErrLocked, Exit: ExitHeld},
	{Is: worker.ErrForeign, Exit: ExitHeld},
	{
		Code: ClockBackwards, Is: snowflake.ErrClockBackwards, Severity: Alarm, NotReady: true,
		Headline: "the clock is behind the last ID: snowflake IDs are refused",
		Meaning:  "The clock was set back while leafd ran. Snowflake IDs are refused until it has caught up with the last one.",
		Action:   "Nothing at once: issuing resumes by itself. Have NTP slew the clock instead of stepping it.",
		Answer:   "clock_backwards", Message: "this machine's clock is behind the last ID; IDs resume when it has caught up", RetryAfter: 1, Worker: notIssuing,
	},
	{
		Code: ClockBackwards, Is: ErrClockForAMoment, Severity: Alarm, Event: true,
		Headline: "the clock was behind the last ID for a moment: calls were refused",
		Action:   "Have NTP slew the clock instead of stepping it.",
	},
	{
		Code: ClockJumped, Is: worker.ErrClockJumped, Severity: Alarm, NotReady: true,
		Headline: "the clock jumped ahead: snowflake IDs end at the ceiling recorded before",
		Meaning:  "The clock is further ahead than the machine's other clocks allow, and no peer confirms it. IDs end at the ceiling recorded before.",
		Action:   "Fix the clock; issuing resumes by itself. If the clock is right now, restart leafd.",
		Answer:   "ceiling_reached", RetryAfter: 3, Worker: notIssuing,
	},
	{
		Code: ReportFailing, Is: snowflake.ErrCeilingReached, Severity: Alarm, NotReady: true, After: time.Second,
		Headline: "the ceiling can't be recorded: no snowflake ID is issued",
		Action:   freeDisk,
		Answer:   "ceiling_reached", Message: "the ceiling could not be recorded ahead of the clock", RetryAfter: 3, Worker: notIssuing,
	},
	{
		Code: ReportFailing, Is: worker.ErrNotRecorded, Severity: Alarm,
		Headline: "the ceiling can't be recorded: issuing ends when the clock reaches it",
		Meaning:  "The ceiling can't be recorded in the data directory. IDs end when the clock reaches it, seconds from now.",
		Action:   freeDisk,
	},
	{
		Code: IssuingStalled, Is: snowflake.ErrTimeExhausted, Severity: Alarm, NotReady: true,
		Headline: "snowflake IDs are refused",
		Meaning:  "Snowflake IDs are refused for a reason that has no code of its own.",
		Action:   "The line's error says which.",
		Answer:   "not_ready", RetryAfter: 3, Worker: notIssuing,
	},
	{
		Code: PeersDisagree, Is: worker.ErrPeersDisagree, Severity: Alarm, NotReady: true,
		Headline: "most daemons have another time: not ready",
		Meaning:  "More than half of the daemons that tell their clock, this one included, agree on another time, and at least half of all tell it. This daemon is not ready and leaves the list of live peers; the IDs it still issues are unique.",
		Action:   "Compare with leafd clock check, and fix the clock that is wrong: this one, or the peers'.",
		Answer:   "clock_offset", Message: "most daemons have another time than this machine's clock", RetryAfter: 10, Worker: "not_ready",
	},
	{
		Code: SegmentMark, Is: segment.ErrMark, Severity: Alarm, NotReady: true,
		Headline: "the data directory takes no record of used ranges: no new range is used",
		Meaning:  "The highest ID of a tag can't be recorded in the data directory. New ranges are refused, and the daemon is not ready; what is in memory is served.",
		Action:   freeDisk,
		Answer:   "segment_unavailable", RetryAfter: 3,
	},
	{
		Code: SegmentStore, Is: segment.ErrReading, Severity: Note, NotReady: true,
		Headline: "the segment tags are being read",
		Answer:   "segment_unavailable", RetryAfter: 1,
	},
	{
		Code: SegmentStore, Is: segment.ErrUnavailable, Severity: Alarm, NotReady: true, After: time.Second,
		Headline: "the segment tags could not be read yet",
		Action:   "Bring the database back, or lead --mysql to the primary.",
		Answer:   "segment_unavailable", Message: "no range of this tag is in memory and none could be fetched", RetryAfter: 1,
	},
	{
		Code: LeaseHalf, Is: worker.ErrLeaseHalf, Severity: Alarm,
		Headline: "half of the lease has passed without ZooKeeper",
		Meaning:  "ZooKeeper has taken no report for half of the time for which this daemon may issue without it. Issuing ends at the time that the line names.",
		Action:   "Bring ZooKeeper back before that time. Restart no daemon, and lose no data directory, until then.",
	},
	{
		Code: RegistryUnreachable, Is: worker.ErrUnreachable, Severity: Alarm,
		Headline: "ZooKeeper takes no report",
		Meaning:  "ZooKeeper takes no report. A running daemon goes on issuing by its local record; one that starts uses its local record, or refuses without one.",
		Action:   "Bring ZooKeeper back before the lease is over (--lease). Postpone new daemons and changes of worker IDs until then.",
		Answer:   "registry_unavailable", Message: "the registry of workers can't be reached; IDs are issued without it", RetryAfter: 3,
	},
	{
		Code: PeersUndecided, Is: worker.ErrPeersUndecided, Severity: Alarm,
		Headline: "the clocks differ, and no majority says which are wrong: going on",
		Meaning:  "Peers have another time, and no majority tells which clocks are wrong: one peer alone, a tie, clocks that all differ, or fewer than half of the peers that answer. This daemon stays ready, and goes on issuing.",
		Action:   "Compare with leafd clock check on each machine, and fix the clock that is wrong.",
	},
	{
		Code: PeersSilent, Is: worker.ErrPeersSilent, Severity: Alarm, Private: true,
		Headline: "no peer tells its clock: ours goes unchecked",
		Meaning:  "There are peers, and none of those asked, 24 at most, tells its clock: ours goes unchecked.",
		Action:   "Let the daemons reach each other's HTTP port (--advertise), and verify with leafd clock check.",
	},
	{
		Code: SegmentStore, Is: segment.ErrStore, Severity: Alarm,
		Headline: "the database gives no range: tags have what is in memory",
		Meaning:  "The database doesn't answer, or is read-only. Tags are served from memory while that lasts.",
		Action:   "Bring the database back, or lead --mysql to the primary.",
	},
	{
		Code: SegmentRegressed, Is: segment.ErrRegressed, Severity: Alarm,
		Headline: "max_id went backwards",
		Meaning:  "max_id of a tag lies below what the table has shown before: it lost commits, was restored or set back. With ZooKeeper the next fetch moves it forward, and no ID repeats. Without, and with --segment-regressed refuse, its ranges are refused.",
		Action:   "Find out why. Where ranges are refused, raise max_id above the highest high that any daemon's /api/segments shows.",
	},
	{
		Code: SegmentRegressed, Is: ErrMovedForward, Severity: Alarm, Event: true,
		Headline: "max_id was below what was issued: it was moved forward",
		Action:   "Find out why: the table lost commits, was restored or set back.",
	},
	{
		Code: SegmentUnguarded, Is: segment.ErrUnguarded, Severity: Alarm, After: 2 * time.Second,
		Headline: "ZooKeeper is away: ranges are fetched without it",
		Meaning:  "ZooKeeper is away, and ranges are fetched without it: a database that loses commits now repeats IDs. With --segment-guard require none is fetched, and tags are served from memory while that lasts.",
		Action:   "Bring ZooKeeper back; what was used meanwhile is recorded there by itself.",
	},
	{
		Code: SegmentUnguarded, Is: segment.ErrGuardAway, Severity: Alarm, After: 2 * time.Second,
		Headline: "ZooKeeper is away, and required: no range is fetched",
		Action:   "Bring ZooKeeper back. Tags are served from memory meanwhile; --segment-reserve makes that last longer.",
	},
	{
		Code: SegmentBadRow, Is: segment.ErrBadRow, Severity: Alarm,
		Headline: "the row can't be used: its ranges are refused",
		Meaning:  "step or max_id of a row can't be used. Its ranges are refused.",
		Action:   "Fix the row.",
	},
	{
		Code: SegmentBadRow, Is: segment.ErrGuardDamaged, Severity: Alarm,
		Headline: "the tag's high mark in ZooKeeper is damaged: its ranges are refused",
		Action:   "Do as the line's error says.",
	},
	{
		Code: SegmentRowMissing, Is: segment.ErrRowMissing, Severity: Warning,
		Headline: "a fetch found no row: the tag has what is in memory",
		Meaning:  "A fetch found no row of a tag. The tag is served from memory until two passes over the table agree that it is gone. A line of the log, and no alarm.",
		Action:   "Nothing, where the tag was deleted. Else put the row back, above every ID ever issued.",
	},
	{
		Code: SegmentTagsGone, Is: segment.ErrTagsGone, Severity: Alarm,
		Headline: "the table shows none of the tags: they have what is in memory",
		Meaning:  "The table shows none of the tags that it had: it was emptied, is being restored, or another database answers. None is taken for deleted: they are served from memory while that lasts.",
		Action:   "Put the rows back, above every ID ever issued, or lead --mysql to the right database. Tags deleted on purpose are unknown once a pass shows another one.",
	},
	{
		Code: SegmentTables, Is: segment.ErrTablesDiffer, Severity: Alarm,
		Headline: "this daemon and another one have different tables of segments",
		Meaning:  "At two fetches in a row the table was behind the ranges of another daemon, which the error names: the two have different databases under one root of ZooKeeper, or nodes of one whose writes arrive late. ZooKeeper keeps their ranges apart; while it is away IDs repeat.",
		Action:   "Give all daemons the same --mysql.",
	},
	{
		Code: CertificateRefused, Is: ErrCertificateRefused, Severity: Alarm,
		Headline: "the changed certificate can't be used: the one before stays",
		Meaning:  "The files of --tls-cert, --tls-key or --tls-client-ca have changed and can't be used. The previous certificate is still served.",
		Action:   "Fix the files as the line's error says; they are taken within seconds.",
	},
	{
		Code: CertificateExpiring, Is: ErrCertificateExpiring, Severity: Alarm,
		Headline: "the certificate ends soon, or has ended",
		Meaning:  "The certificate of --tls-cert ends soon, or has ended. It is still served, and clients refuse it once it has ended.",
		Action:   "Put a new certificate and its key in place of the files.",
	},
	{
		Code: RegistryDataLost, Severity: Alarm, Event: true,
		Headline: "ZooKeeper has lost data: each daemon puts its worker ID back",
		Meaning:  "ZooKeeper has lost data, or was set back to an earlier state. This daemon puts its worker ID back while its limit lies ahead, and goes on issuing. New daemons get no worker ID until every lost one has ended.",
		Action:   "Find out what did it. Once leafd worker list shows every daemon that is not gone for good, run leafd cluster open. After a backup was put back run leafd cluster recover at once.",
	},
	{
		Code: WorkerIDLost, Severity: Alarm, Event: true,
		Headline: "our worker ID is lost: this data directory gets another one",
		Meaning:  "The worker ID that this data directory had is another's by now, or ZooKeeper lost it after its limit had passed. The daemon gets another one and goes on.",
		Action:   "Nothing, where the daemon was down for longer than its lease or its worker ID was released. Else find out what emptied ZooKeeper, or set it back.",
	},
	{
		Code: RecordSetAside, Severity: Alarm, Event: true,
		Headline: "the local record was set aside: this data directory gets another worker ID",
		Meaning:  "The local record is damaged or lost, or of another data directory, of which this one is a copy. It was set aside as the file that the error names, and the daemon got a worker ID of its own.",
		Action:   "Find out why. The old worker ID comes back once its limit has passed (leafd worker list). Copy no data directories.",
	},
	{
		Code: AlarmsUndelivered, Severity: Warning,
		Headline: "alarms are not delivered to the webhook",
		Meaning:  "The last alarm was not delivered to --alarm-webhook. Log and counters have it. A line of the log, and no alarm.",
		Action:   "See the log for why, and --alarm-webhook.",
	},
}
