package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/leafd/leafd/worker"
)

// The record file: two slots of slotBytes each, a record each, that are written in turn, so
// that no write of one touches the other. A slot is a JSON document, spaces, and a line end:
//
//	{
//	  "leafd": 4,
//	  "sha256": "<64 lower-case hex digits>",
//	  "sequence": 4,
//	  "record": {
//	    "node": "10.0.0.5:8080",
//	    …
//	  }
//	} <spaces>
//
// A record of an even sequence number stands in the first slot, one of an odd number in
// the second. The checksum is the SHA-256 of all from the quotation mark before sequence
// to the slot's closing brace. A record has only one spelling, and so has a slot: no byte
// of it can change unseen. Any change of the format, a new field of worker.Record too,
// needs a new version. Each leafd writes both slots in its own: a slot of another version
// beside it is no torn one, but may be the newest record. Versions 1 to 3 were never released.
const (
	version = 4
	// slotBytes is a multiple of any page of memory, sector of a disk and page of a
	// flash chip that is usual: a write of one slot that is cut short spares the other. It
	// holds a record and some hundred peers.
	slotBytes = 16 << 10
	fileBytes = 2 * slotBytes
	// recordBytes is what a slot has for its record: the rest of it takes less than
	// the difference, for any sequence number.
	recordBytes = slotBytes - 256
)

// maxMillis is the end of the year 9999: no clock shows more, and a value beyond it has another
// unit.
const maxMillis = 253402300799999

// Sentinels of this package; those of package worker are used besides.
var (
	// ErrUnknownFormat is returned when the record was written by another leafd, in a
	// version, with a field, or without a field that this one does not know.
	ErrUnknownFormat = errors.New("record of a format that this leafd does not know")
	// ErrBadRecord is returned by Save for a record that Load would not
	// accept, or that has no room in a slot; nothing is written.
	ErrBadRecord = errors.New("unusable record")
)

// check returns nil when r may be saved, and else ErrBadRecord, wrapped with
// the field and its value.
//
// The order of timestamp and ceiling is not judged: after a clean stop, an idle daemon
// leaves a ceiling below its timestamp, and one with a clock that was set back leaves a
// ceiling far above it.
func check(r worker.Record) error {
	for _, field := range []struct {
		name               string
		value, least, most int64
	}{
		{"worker_id", r.WorkerID, worker.NoWorkerID, math.MaxInt64},
		{"epoch", int64(r.Epoch), -maxMillis, maxMillis},
		{"timestamp", int64(r.Timestamp), max(1, int64(r.Epoch)), maxMillis},
		{"ceiling", int64(r.Ceiling), 0, maxMillis},
		{"booted", int64(r.Booted), -maxMillis, maxMillis},
		{"registered", int64(r.Registered), 0, maxMillis},
		{"born", int64(r.Born), 0, maxMillis},
		{"floor", int64(r.Floor), 0, maxMillis},
		{"limit", int64(r.Limit), int64(r.Floor), maxMillis},
		{"acked_limit", int64(r.AckedLimit), int64(r.Floor), maxMillis},
		{"losses", r.Losses, 0, math.MaxInt64},
		{"lost_at", int64(r.LostAt), 0, maxMillis},
		{"longest_lease", int64(r.LongestLease), 0, math.MaxInt64},
		{"longest_session", int64(r.LongestSession), 0, math.MaxInt64},
		{"longest_lend", int64(r.LongestLend), 0, math.MaxInt64},
		{"acked.number", r.Acked.Number, 0, math.MaxInt64},
		{"current.number", r.Current.Number, 0, math.MaxInt64},
	} {
		if field.value < field.least || field.value > field.most {
			return fmt.Errorf("%w: %s %d: want %d to %d", ErrBadRecord, field.name, field.value, field.least, field.most)
		}
	}
	switch r.State {
	case "":
	case worker.RecordClaiming, worker.RecordActive, worker.RecordReleasing, worker.RecordReleased:
		if r.Cluster == "" || r.Instance == "" || r.WorkerID < 0 || r.State != worker.RecordClaiming && r.AckedLimit == 0 {
			return fmt.Errorf("%w: cluster %q, instance %q, worker_id %d, acked_limit %d: want all of them with state %q", ErrBadRecord, r.Cluster, r.Instance, r.WorkerID, int64(r.AckedLimit), r.State)
		}
	default:
		return fmt.Errorf("%w: state %q: want claiming, active, releasing, released or none", ErrBadRecord, r.State)
	}
	for _, s := range slices.Concat([]string{r.Cluster, r.Node, r.Layout, r.Owner, r.Instance, r.Acked.Owner, r.Current.Owner, r.DirectoryID, r.Root, r.Forever, r.BootID}, r.Servers, r.Peers) {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%w: text %q is not valid UTF-8", ErrBadRecord, s)
		}
	}
	return nil
}

// Fit returns r as a Save keeps it: with as many of its peers, which are there for comfort, as a
// slot has room for. It returns ErrBadRecord if r may not be saved, or has no room without them.
func Fit(r worker.Record) (worker.Record, error) {
	r, _, err := encode(r)
	return r, err
}

// encode returns r as it is kept, and its bytes.
func encode(r worker.Record) (worker.Record, []byte, error) {
	if err := check(r); err != nil {
		return r, nil, err
	}
	body, err := marshal(r)
	if over := len(body) - recordBytes; err == nil && over > 0 {
		const least = len("\n      \"\",") // that a peer takes besides its address
		for ; over > 0 && len(r.Peers) > 0; r.Peers = r.Peers[:len(r.Peers)-1] {
			over -= least + len(r.Peers[len(r.Peers)-1])
		}
		body, err = marshal(r)
	}
	if err == nil && len(body) > recordBytes {
		err = fmt.Errorf("it takes %d bytes without its peers, and a slot has room for %d", len(body), recordBytes)
	}
	if err != nil {
		return r, nil, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	return r, body, nil
}

func marshal(r worker.Record) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	err := enc.Encode(r)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}

// frame returns the slot of a record: slotBytes, unless the record has no room there.
func frame(sequence uint64, record []byte) []byte {
	checked := fmt.Appendf(nil, "\"sequence\": %d,\n  \"record\": %s\n}", sequence, record)
	slot := fmt.Appendf(nil, "{\n  \"leafd\": %d,\n  \"sha256\": \"%x\",\n  %s", version, sha256.Sum256(checked), checked)
	padding := bytes.Repeat([]byte(" "), max(0, slotBytes-len(slot)-len("\n")))
	return append(append(slot, padding...), '\n')
}

// newFile returns a file with the record in both slots.
func newFile(record []byte) content {
	return content{sequence: 1, raw: append(frame(0, record), frame(1, record)...)}
}

// damaged returns worker.ErrDamaged with what is wrong and what to do about it.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s; do not delete it unread: it says up to which time IDs were issued. "+
		"Put an intact copy of the newest state back; if there is none, and the clock is right and past every ID "+
		"issued so far, move the whole data directory away", worker.ErrDamaged, fmt.Sprintf(format, args...))
}

// unknownFormat returns ErrUnknownFormat with what is not known and what to do about it.
func unknownFormat(format string, args ...any) error {
	return fmt.Errorf("%w: %s; start the leafd that wrote it; if there is none, and the clock is right and past every ID "+
		"issued so far, move the whole data directory away", ErrUnknownFormat, fmt.Sprintf(format, args...))
}

// content is what a record file says.
type content struct {
	record   worker.Record
	sequence uint64 // of the record
	raw      []byte // the file
}

// slot is a record with its sequence number, as it stands in the file.
type slot struct {
	Leafd    int
	Sequence uint64
	Record   json.RawMessage
}

// readSlot reads what stands at the start of part, whole or not.
func readSlot(part []byte) (slot, error) {
	var s slot
	err := json.NewDecoder(bytes.NewReader(part)).Decode(&s)
	return s, err
}

// decode returns what raw says, or worker.ErrDamaged or ErrUnknownFormat.
func decode(raw []byte) (content, error) {
	for place := 0; place < min(len(raw), fileBytes); place += slotBytes { // of any checksum: it is the other version's to judge
		if s, err := readSlot(raw[place:]); err == nil && s.Leafd > 0 && s.Leafd != version {
			return content{}, unknownFormat("its version is %d, and this leafd knows %d", s.Leafd, version)
		}
	}
	newest, intact := newestSlot(raw)
	if intact > 0 {
		r, err := decodeRecord(newest.Record)
		r.MaybeStale = err == nil && intact == 1
		return content{record: r, sequence: newest.Sequence, raw: raw}, err
	}
	first, err := readSlot(raw)
	switch {
	case len(raw) == 0:
		return content{}, damaged("the file is empty")
	case err == nil && first.Leafd == 0:
		return content{}, damaged("the file is not leafd's: it names no version")
	case err != nil:
		return content{}, damaged("the file is cut short, altered, or not leafd's (%v)", err)
	default:
		return content{}, damaged("the file was cut short or altered: neither of its two slots is what its checksum is of")
	}
}

// newestSlot returns the newest of the intact slots of a file, and how many of them are.
func newestSlot(raw []byte) (newest slot, intact int) {
	if len(raw) != fileBytes {
		return slot{}, 0
	}
	for place := range 2 {
		part := raw[place*slotBytes : (place+1)*slotBytes]
		s, err := readSlot(part)
		if err != nil || s.Sequence%2 != uint64(place) || !bytes.Equal(part, frame(s.Sequence, s.Record)) {
			continue
		}
		if intact++; s.Sequence >= newest.Sequence {
			newest = s
		}
	}
	return newest, intact
}

// decodeRecord returns the record of an intact slot. One that a Save of this leafd would not
// spell the same, byte for byte, is worker.ErrDamaged where a value is impossible, and else
// ErrUnknownFormat: encoding/json would lose what it doesn't know, and read what is missing,
// null, or spelled in another case as it likes.
func decodeRecord(body []byte) (worker.Record, error) {
	var r worker.Record
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&r); err != nil {
		return worker.Record{}, unknownFormat("its record can't be read (%v)", err)
	}
	if err := check(r); err != nil {
		return worker.Record{}, damaged("its checksum is right but its record is not (%v)", err)
	}
	if again, err := marshal(r); err != nil || !bytes.Equal(again, body) {
		return worker.Record{}, unknownFormat("its record has other fields than this leafd writes, or spells them otherwise")
	}
	return r, nil
}
