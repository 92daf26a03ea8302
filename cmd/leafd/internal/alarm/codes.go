package alarm

// Code names a kind of alarm. Programs compare codes: one is never renamed, nor
// given another meaning.
type Code string

// The codes; Codes tells what each means.
const (
	ClockBackwards      Code = "clock_backwards"
	ClockJumped         Code = "clock_jumped"
	ClockRefused        Code = "clock_refused"
	ReportFailing       Code = "report_failing"
	WorkerFenced        Code = "worker_fenced"
	LeaseOver           Code = "lease_over"
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
	SegmentMark         Code = "segment_mark"
	SegmentTagsGone     Code = "segment_tags_gone"
	SegmentTables       Code = "segment_tables_differ"
	CertificateRefused  Code = "certificate_refused"
	CertificateExpiring Code = "certificate_expiring"
)

// Info is what there is to know of a code.
type Info struct {
	Code    Code
	Meaning string // what happened, and what it does to IDs
	Action  string // what to do about it
}

// Codes returns all codes, those of snowflake IDs first. docs/ALARMS.md has the
// same words.
func Codes() []Info {
	return []Info{
		{
			ClockBackwards,
			"The clock was set back while leafd ran. Snowflake IDs are refused until it has caught up with the last one.",
			"Nothing at once: issuing resumes by itself. Have NTP slew the clock instead of stepping it.",
		},
		{
			ClockJumped,
			"The clock is further ahead than the machine's other clocks allow, and no peer confirms it. IDs end at the ceiling recorded before.",
			"Fix the clock; issuing resumes by itself. If the clock is right now, restart leafd.",
		},
		{
			ClockRefused,
			"The start was refused (exit 3): the clock is behind the time recorded before, or the peers have another time. Nothing was recorded.",
			"Fix the clock, or wait until it has caught up. Never delete the record: IDs would repeat.",
		},
		{
			ReportFailing,
			"The ceiling can't be recorded in the data directory. IDs end when the clock reaches it, seconds from now.",
			"Free or fix the disk of --data-dir; issuing resumes by itself.",
		},
		{
			WorkerFenced,
			"The daemon was displaced: another process has its data directory, its entry in ZooKeeper or its worker ID. It issues nothing until, seconds later, it begins a new life in the same process, with another worker ID where its own is lost. Raised again for each try that fails.",
			"Find the other process by the line's error: two daemons may run on copies of one data directory. Only where the log says fenced for good (the root is another cluster's, or has another layout) restart it, with the right settings.",
		},
		{
			LeaseOver,
			"ZooKeeper has taken no report for the whole lease (--lease), or has lost data so late in it that the worker ID was not put back: beyond its limit it may be another's. No snowflake ID is issued until ZooKeeper answers, and a new life begins.",
			"Bring ZooKeeper back; issuing resumes by itself. Where ZooKeeper has lost data, see registry_forgot.",
		},
		{
			WorkerIDLost,
			"The worker ID that this data directory had is another's by now, or ZooKeeper lost it after its limit had passed. The daemon gets another one and goes on.",
			"Nothing, where the daemon was down for longer than its lease or somebody released its worker ID. Else find out who emptied ZooKeeper, or set it back.",
		},
		{
			RecordSetAside,
			"The local record is damaged or lost, or of another data directory, of which this one is a copy. It was set aside as the file that the error names, and the daemon got a worker ID of its own.",
			"Find out why. The old worker ID comes back once its limit has passed (leafd worker list). Copy no data directories.",
		},
		{
			IssuingStalled,
			"Snowflake IDs are refused for a reason that has no code of its own.",
			"The line's error says which.",
		},
		{
			IdentityHeld,
			"A life could not begin (at the start: exit 4): a peer says that it issues under this daemon's worker ID.",
			"Find out which ZooKeeper the peer that the line names belongs to: two of them have one cluster's data. Stop one of the two daemons, and give it an empty --data-dir.",
		},
		{
			WorkersExhausted,
			"The start was refused (exit 5): every worker ID of the layout is taken. The line's error says when the next one comes back.",
			"leafd worker list shows who has them, and until when. leafd worker release --force frees that of a host that is gone for good.",
		},
		{
			WorkersClosed,
			"The start was refused (exit 1), or a later life: there is no cluster, or ZooKeeper lost data and no worker ID is given out until every lost one has ended.",
			"Start the daemons that had worker IDs: they put their cluster back. Once each is back or gone for good: leafd cluster open. A new ensemble gets a cluster from leafd cluster init.",
		},
		{
			RegistryUnreachable,
			"ZooKeeper takes no report. A running daemon goes on issuing by its local record; one that starts uses its local record, or refuses without one.",
			"Bring ZooKeeper back before the lease is over (--lease). Postpone new daemons and changes of worker IDs until then.",
		},
		{
			RegistryDataLost,
			"ZooKeeper has lost data, or was set back to an earlier state. This daemon puts its worker ID back while its limit lies ahead, and goes on issuing. New daemons get no worker ID until every lost one has ended.",
			"Find out who did it. Once leafd worker list shows every daemon that is not gone for good, run leafd cluster open. After a backup was put back run leafd cluster recover at once.",
		},
		{
			PeersDisagree,
			"More than half of the daemons that tell their clock, this one included, agree on another time, and at least half of all tell it. This daemon is not ready and leaves the list of live peers; the IDs it still issues are unique.",
			"Compare with leafd clock check, and fix the clock that is wrong: this one, or the peers'.",
		},
		{
			PeersUndecided,
			"Peers have another time, and no majority tells which clocks are wrong: one peer alone, a tie, clocks that all differ, or fewer than half of the peers that answer. This daemon stays ready, and goes on issuing.",
			"Compare with leafd clock check on each machine, and fix the clock that is wrong.",
		},
		{
			PeersSilent,
			"There are peers, and none of those asked, 24 at most, tells its clock. Nobody checks whether ours is right.",
			"Let the daemons reach each other's HTTP port (--advertise), and verify with leafd clock check.",
		},
		{
			SegmentStore,
			"The database doesn't answer, or is read-only. Tags are served from memory while that lasts.",
			"Bring the database back, or lead --mysql to the primary.",
		},
		{
			SegmentRegressed,
			"max_id of a tag lies below what the table has shown before: it lost commits, was restored or set back. With ZooKeeper the next fetch moves it forward, and no ID repeats. Without, and with --segment-regressed refuse, its ranges are refused.",
			"Find out why. Where ranges are refused, raise max_id above the highest high that any daemon's /api/segments shows.",
		},
		{
			SegmentUnguarded,
			"ZooKeeper is away, and ranges are fetched without it: a database that loses commits now repeats IDs. With --segment-guard require none is fetched, and tags are served from memory while that lasts.",
			"Bring ZooKeeper back; what was used meanwhile is recorded there by itself.",
		},
		{
			SegmentBadRow,
			"step or max_id of a row can't be used. Its ranges are refused.",
			"Fix the row.",
		},
		{
			SegmentMark,
			"The highest ID of a tag can't be recorded in the data directory. New ranges are refused.",
			"Free or fix the disk of --data-dir.",
		},
		{
			SegmentTagsGone,
			"The table shows none of the tags that it had: it was emptied, is being restored, or another database answers. None is taken for deleted: they are served from memory while that lasts.",
			"Put the rows back, above every ID ever issued, or lead --mysql to the right database. Tags deleted on purpose are unknown once a pass shows another one.",
		},
		{
			SegmentTables,
			"At two fetches in a row the table was behind the ranges of another daemon, other_node: the two have different databases under one root of ZooKeeper, or nodes of one whose writes arrive late. ZooKeeper keeps their ranges apart; while it is away IDs repeat.",
			"Give all daemons the same --mysql.",
		},
		{
			CertificateRefused,
			"The files of --tls-cert, --tls-key or --tls-client-ca have changed and can't be used. The previous certificate is still served.",
			"Fix the files as the line's error says; they are taken within seconds.",
		},
		{
			CertificateExpiring,
			"The certificate of --tls-cert ends soon, or has ended. It is still served, and clients refuse it once it has ended.",
			"Put a new certificate and its key in place of the files.",
		},
	}
}
