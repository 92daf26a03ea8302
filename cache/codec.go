package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// The record file, version 2: one JSON document of two slots, a record each, that are
// written in turn. A slot takes slotBytes of the file, with what stands before it and
// behind it (padding, commas and brackets), so that no write of one touches the other:
//
//	{"leafd": 2, "slots": [
//	{
//	  "sha256": "<64 lower-case hex digits>",
//	  "sequence": 4,
//	  "record": {
//	    "node": "10.0.0.5:8080",
//	    …
//	  }
//	} <spaces>,
//	{
//	  "sha256": "<64 lower-case hex digits>",
//	  "sequence": 5,
//	  …
//	} <spaces>
//	]}
//
// A record of an even sequence number stands in the first slot, one of an odd number in
// the second. The checksum is the SHA-256 of all from the quotation mark before sequence
// to the closing brace of the record. A slot has only this one spelling, so no byte of it
// can change unseen. A leafd of version 1 reads the document's version and refuses it.
//
// A new field of worker.Record that may be absent needs omitempty; any other change of
// the format needs a new version.
const (
	version = 2
	// slotBytes is a multiple of any page of memory, sector of a disk and page of a
	// flash chip that is usual: a write of one slot that is cut short spares the other. It
	// holds the 256 prior owners that a record may have, and some 100 peers besides.
	slotBytes = 16 << 10
	fileBytes = 2 * slotBytes
	// recordBytes is what a slot has for its record: the rest of it takes less than
	// the difference, whatever the sequence number.
	recordBytes = slotBytes - 256

	fileHead   = "{\"leafd\": 2, \"slots\": [\n" // before the first slot
	fileMiddle = ",\n"                           // behind it
	fileTail   = "\n]}\n"                        // behind the second
)

// MaxRecordBytes is the largest record file that is read: one of version 1 had room for
// any number of peers.
const MaxRecordBytes = 1 << 20

// maxMillis is the end of the year 9999: no clock shows more, and a value
// beyond it is of another unit.
const maxMillis clock.Millis = 253402300799999

// Sentinels of this package; those of package worker are used besides.
var (
	// ErrNewer is returned when the record was written by a newer leafd, in a
	// version or with a field that this one does not know.
	ErrNewer = errors.New("record written by a newer leafd")
	// ErrBadRecord is returned by Save for a record that Load would not
	// accept, or that has no room in a slot; nothing is written.
	ErrBadRecord = errors.New("unusable record")
)

// check returns nil when r may be saved, and else ErrBadRecord, wrapped with
// the field and its value. The worker ID must be 0 or more, or
// worker.NoWorkerID, the ceiling 0 or more, the limit not before the floor, the
// timestamp more than 0 and not before the epoch, all times before the year
// 10000, and all strings valid UTF-8.
//
// The order of timestamp and ceiling is not judged: an idle daemon leaves, after
// a clean stop, a ceiling below its timestamp, and one whose clock was set
// back leaves a ceiling far above it.
func check(r worker.Record) error {
	bad := func(field string, value any, why string) error {
		return fmt.Errorf("%w: %s %v %s", ErrBadRecord, field, value, why)
	}
	switch {
	case r.WorkerID < worker.NoWorkerID:
		return bad("worker_id", r.WorkerID, "is negative")
	case r.Epoch < -maxMillis || r.Epoch > maxMillis:
		return bad("epoch", int64(r.Epoch), "is no time in milliseconds")
	case r.Timestamp <= 0 || r.Timestamp > maxMillis:
		return bad("timestamp", int64(r.Timestamp), "is no time in milliseconds since 1970")
	case r.Timestamp < r.Epoch:
		return bad("timestamp", int64(r.Timestamp), fmt.Sprintf("lies before the epoch %d", int64(r.Epoch)))
	case r.Limit < r.Floor:
		return bad("limit", int64(r.Limit), fmt.Sprintf("lies before the floor %d", int64(r.Floor)))
	case r.Losses < 0:
		return bad("losses", r.Losses, "is negative")
	case r.Change < 0:
		return bad("change", r.Change, "is negative")
	case r.LongestLease < 0:
		return bad("longest_lease", int64(r.LongestLease), "is negative")
	case r.Ceiling < 0 || r.Ceiling > maxMillis:
		return bad("ceiling", int64(r.Ceiling), "is no time in milliseconds since 1970")
	}
	for field, t := range map[string]clock.Millis{"registered": r.Registered, "born": r.Born, "floor": r.Floor, "limit": r.Limit} {
		if t < 0 || t > maxMillis {
			return bad(field, int64(t), "is no time in milliseconds since 1970")
		}
	}
	texts := slices.Concat([]string{r.Cluster, r.Node, r.Layout, r.Owner, r.Instance, r.Acked, r.Current, r.DirectoryID}, r.Peers, r.PriorOwners)
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return bad("text", fmt.Sprintf("%q", s), "is not valid UTF-8")
		}
	}
	return nil
}

// Fit returns r as a Save keeps it: with as many of its peers, which are there for
// comfort, as a slot has room for. ErrBadRecord where r may not be saved, or has no room
// without them.
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
	head, tail := fileHead, fileMiddle
	if sequence%2 == 1 {
		head, tail = "", fileTail
	}
	checked := fmt.Appendf(nil, "\"sequence\": %d,\n  \"record\": %s", sequence, record)
	slot := fmt.Appendf(nil, "%s{\n  \"sha256\": \"%x\",\n  %s\n}", head, sha256.Sum256(checked), checked)
	padding := bytes.Repeat([]byte(" "), max(0, slotBytes-len(slot)-len(tail)))
	return append(append(slot, padding...), tail...)
}

// newFile returns a file with the record in both slots.
func newFile(record []byte) content {
	return content{sequence: 1, raw: append(frame(0, record), frame(1, record)...)}
}

// frameFirst returns the file that a leafd of version 1 wrote for a record.
func frameFirst(record []byte) []byte {
	return fmt.Appendf(nil, "{\n  \"leafd\": 1,\n  \"sha256\": \"%x\",\n  \"record\": %s\n}\n", sha256.Sum256(record), record)
}

// damaged returns worker.ErrDamaged with what is wrong and what to do about it.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s; do not delete it unread: it says up to which time IDs were issued. "+
		"Put an intact copy of the newest state back; if there is none, and the clock is right and past every ID "+
		"issued so far, move the whole data directory away", worker.ErrDamaged, fmt.Sprintf(format, args...))
}

// content is what a record file says.
type content struct {
	record   worker.Record
	sequence uint64 // of the record
	raw      []byte // the file, in this version's format
}

// slot is a record with its sequence number, as it stands in the file.
type slot struct {
	Sequence uint64
	Record   json.RawMessage
}

// decode returns what raw says, or worker.ErrDamaged or ErrNewer.
func decode(raw []byte) (content, error) {
	if len(raw) == 0 {
		return content{}, damaged("the file is empty")
	}
	if len(raw) > MaxRecordBytes {
		return content{}, damaged("the file is larger than %d bytes", MaxRecordBytes)
	}
	var whole struct {
		Leafd  json.Number
		Record json.RawMessage
	}
	broken := json.Unmarshal(raw, &whole) // as a slot may be
	v, unnamed := whole.Leafd.Int64()
	switch {
	case broken == nil && v > version:
		return content{}, fmt.Errorf("%w: its version is %d, this leafd knows %d; start the newer leafd again", ErrNewer, v, version)
	case broken == nil && bytes.Equal(raw, frameFirst(whole.Record)):
		return adopt(whole.Record)
	}
	newest, intact := newestSlot(raw)
	switch {
	case intact == 0 && broken != nil:
		return content{}, damaged("the file is cut short, altered, or not leafd's (%v)", broken)
	case intact == 0 && unnamed != nil:
		return content{}, damaged("the file is not leafd's: it names no version")
	case intact == 0:
		return content{}, damaged("the file was altered: it is not what its checksum is of")
	}
	r, err := decodeRecord(newest.Record)
	r.MaybeStale = err == nil && intact == 1
	return content{record: r, sequence: newest.Sequence, raw: raw}, err
}

// newestSlot returns the newest of the intact slots of a file, and how many of them are.
func newestSlot(raw []byte) (newest slot, intact int) {
	if len(raw) != fileBytes {
		return slot{}, 0
	}
	for place := range 2 {
		part := raw[place*slotBytes : (place+1)*slotBytes]
		var s slot
		err := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(part, []byte(fileHead)))).Decode(&s)
		if err != nil || s.Sequence%2 != uint64(place) || !bytes.Equal(part, frame(s.Sequence, s.Record)) {
			continue
		}
		if intact++; s.Sequence >= newest.Sequence {
			newest = s
		}
	}
	return newest, intact
}

// adopt returns the file of this version for the record in one of version 1.
func adopt(record []byte) (content, error) {
	r, err := decodeRecord(record)
	if err != nil {
		return content{}, err
	}
	r, record, err = encode(r)
	if err != nil {
		return content{}, damaged("its record has no room in this leafd's file (%v)", err)
	}
	file := newFile(record)
	file.record = r
	return file, nil
}

// decodeRecord returns the record of an intact slot, or worker.ErrDamaged or ErrNewer.
func decodeRecord(body []byte) (worker.Record, error) {
	if err := checkFields(body); err != nil {
		return worker.Record{}, err
	}
	var r worker.Record
	if err := json.Unmarshal(body, &r); err != nil {
		return worker.Record{}, damaged("its record can't be read (%v)", err)
	}
	if err := check(r); err != nil {
		return worker.Record{}, damaged("its checksum is right but its record is not (%v)", err)
	}
	return r, nil
}

// checkFields sees to what encoding/json lets pass: a field that is unknown,
// spelled in another case, given twice, null, or missing. Each would be read as
// a zero, or lost with the next Save.
func checkFields(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return damaged("its record is no JSON object")
	}
	known, seen := recordFields(), map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return damaged("its record can't be read (%v)", err)
		}
		if _, ok := known[name]; !ok {
			return fmt.Errorf("%w: this leafd does not know the field %.80q; start the newer leafd again", ErrNewer, name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return damaged("its record can't be read (%v)", err)
		}
		if seen[name] || bytes.Equal(value, []byte("null")) {
			return damaged("its field %q is given twice, or null", name)
		}
		seen[name] = true
	}
	for name, required := range known {
		if required && !seen[name] {
			return damaged("its field %q is missing", name)
		}
	}
	return nil
}

// recordFields returns the names of a record's fields, and which of them every
// record has.
func recordFields() map[string]bool {
	t := reflect.TypeFor[worker.Record]()
	fields := make(map[string]bool, t.NumField())
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		fields[name] = !strings.Contains(options, "omitempty")
	}
	return fields
}
