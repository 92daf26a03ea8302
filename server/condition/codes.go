package condition

import "errors"

// The codes.
const (
	StartingUp        Code = "starting"
	Draining          Code = "draining"
	WorkerFenced      Code = "worker_fenced"
	ClockBackwards    Code = "clock_backwards"
	CeilingReached    Code = "ceiling_reached"
	NotReady          Code = "not_ready"
	WorkerIDLost      Code = "worker_id_lost"
	RegistryForgot    Code = "registry_forgot"
	SegmentStore      Code = "segment_store"
	SegmentRegressed  Code = "segment_regressed"
	SegmentUnguarded  Code = "segment_unguarded"
	SegmentBadRow     Code = "segment_bad_row"
	RowMissing        Code = "row_missing"
	ReloadRefused     Code = "reload_refused"
	AlarmsUndelivered Code = "alarms_undelivered"
)

// Sentinels of conditions that no package below has an error for.
var (
	// ErrFencedForGood: no other life may follow on the one that was displaced.
	ErrFencedForGood = errors.New("fenced for good")
	// ErrRecordSetAside: a record was not this data directory's, or could not be read.
	ErrRecordSetAside = errors.New("record set aside")
	// ErrMovedForward: a fetch has moved a tag's max_id forward.
	ErrMovedForward = errors.New("max_id moved forward")
	// ErrDatabaseChanged: a fetch met another server than the one before.
	ErrDatabaseChanged = errors.New("database changed")
	// ErrClockForAMoment: calls were refused while the clock was behind.
	ErrClockForAMoment = errors.New("clock behind for a moment")
	// ErrCertificateRefused and ErrCertificateExpiring are those of conn.Certificates.
	ErrCertificateRefused  = errors.New("changed certificate refused")
	ErrCertificateExpiring = errors.New("certificate ends soon")
)
