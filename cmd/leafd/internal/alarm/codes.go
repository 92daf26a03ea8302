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
	RecordFailing       Code = "record_failing"
	WorkerFenced        Code = "worker_fenced"
	IssuingStalled      Code = "issuing_stalled"
	IdentityHeld        Code = "identity_held"
	WorkersExhausted    Code = "workers_exhausted"
	RegistryUnreachable Code = "registry_unreachable"
	RegistryDataLost    Code = "registry_forgot"
	RegistryRestored    Code = "registry_restored"
	PeersDisagree       Code = "peers_disagree"
	PeersUndecided      Code = "peers_undecided"
	PeersSilent         Code = "peers_silent"
	SegmentStore        Code = "segment_store"
	SegmentRegressed    Code = "segment_regressed"
	SegmentBadRow       Code = "segment_bad_row"
	SegmentMark         Code = "segment_mark"
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
			"The ceiling can be recorded neither in the data directory nor in ZooKeeper. IDs end when the clock reaches it, seconds from now.",
			"Free or fix the disk of --data-dir; bring ZooKeeper back.",
		},
		{
			RecordFailing,
			"The data directory takes no record; ZooKeeper does, and IDs are still issued. Without ZooKeeper they end within seconds, and a start has an old record.",
			"Free or fix the disk of --data-dir while ZooKeeper is up.",
		},
		{
			WorkerFenced,
			"Another process has this daemon's data directory or its entry in ZooKeeper, or the entry is gone. Nothing is issued any more.",
			"Find the other process by the line's error, and make sure that each name has one daemon. Then restart this one.",
		},
		{
			IssuingStalled,
			"Snowflake IDs are refused for a reason that has no code of its own.",
			"The line's error says which.",
		},
		{
			IdentityHeld,
			"The start was refused (exit 4): another live process is this node.",
			"Stop the other one, or give this one a --node and a --data-dir of its own.",
		},
		{
			WorkersExhausted,
			"The start was refused (exit 5): every worker ID of the layout has an entry.",
			"Release entries of hosts that are gone: leafd worker list, leafd worker release.",
		},
		{
			RegistryUnreachable,
			"ZooKeeper takes no report. A running daemon goes on issuing by its local record; one that starts uses its local record, or refuses without one.",
			"Bring ZooKeeper back within the time of --reclaim-after, if that is set. Postpone new daemons and changes of worker IDs until then.",
		},
		{
			RegistryDataLost,
			"ZooKeeper has lost its data, or has another cluster's. This daemon put its worker ID back and goes on issuing.",
			"Find out who emptied it. Check with leafd worker list that all daemons are there again before you start new ones.",
		},
		{
			RegistryRestored,
			"ZooKeeper was set back to an earlier state. This daemon wrote its entry again and goes on issuing.",
			"Find out who restored it. A daemon that was down at that time has an old record there: start it with its data directory.",
		},
		{
			PeersDisagree,
			"More than half of the daemons that tell their clock, this one included, agree on another time. This daemon is not ready and leaves the list of live peers; the IDs it still issues are unique.",
			"Compare with leafd clock check, and fix the clock that is wrong: this one, or the peers'.",
		},
		{
			PeersUndecided,
			"Peers have another time, and no majority tells which clocks are wrong: one peer alone, a tie, or clocks that all differ. This daemon stays ready, and goes on issuing.",
			"Compare with leafd clock check on each machine, and fix the clock that is wrong.",
		},
		{
			PeersSilent,
			"There are peers, and none tells its clock. Nobody checks whether ours is right.",
			"Let the daemons reach each other's HTTP port (--advertise), and verify with leafd clock check.",
		},
		{
			SegmentStore,
			"The database doesn't answer. Tags are served from memory while that lasts.",
			"Bring the database back.",
		},
		{
			SegmentRegressed,
			"max_id of a tag lies below what this daemon has used: the table went backwards. Its ranges are refused.",
			"Raise max_id above the highest high that any daemon's /api/segments shows.",
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
