package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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

// The record file, version 1, byte for byte; the checksum is the SHA-256 of the
// record's own bytes, from its opening brace to its closing one:
//
//	{
//	  "leafd": 1,
//	  "sha256": "<64 lower-case hex digits>",
//	  "record": {
//	    "node": "10.0.0.5:8080",
//	    …
//	  }
//	}
//
// The frame around checksum and record has only this one spelling, so no byte
// of the file can change unseen. A new field of worker.Record that may be
// absent needs omitempty; any other change of the format needs a new version.
const (
	version     = 1
	frameHead   = "{\n  \"leafd\": 1,\n  \"sha256\": \""
	frameMiddle = "\",\n  \"record\": "
	frameTail   = "\n}\n"
	sumHexLen   = 2 * sha256.Size
)

// MaxRecordBytes is the largest record file that is written or read.
const MaxRecordBytes = 1 << 20

// maxMillis is the end of the year 9999: no clock shows more, and a value
// beyond it is of another unit.
const maxMillis clock.Millis = 253402300799999

// Sentinels of this package; those of package worker are used besides.
var (
	// ErrNewer is returned when the record was written by a newer leafd, in a
	// version or with a field that this one does not know.
	ErrNewer = errors.New("cache: record written by a newer leafd")
	// ErrBadRecord is returned by Save for a record that Load would not
	// accept; nothing is written.
	ErrBadRecord = errors.New("cache: unusable record")
)

// Check returns nil when r may be saved, and else ErrBadRecord, wrapped with
// the field and its value. The worker ID and the ceiling must be 0 or more, the
// timestamp more than 0 and not before the epoch, all times before the year
// 10000, and all strings valid UTF-8.
//
// The order of timestamp and ceiling is not judged: an idle daemon leaves, after
// a clean stop, a ceiling below its timestamp, and one whose clock was set
// back leaves a ceiling far above it.
func Check(r worker.Record) error {
	bad := func(field string, value any, why string) error {
		return fmt.Errorf("%w: %s %v %s", ErrBadRecord, field, value, why)
	}
	switch {
	case r.WorkerID < 0:
		return bad("worker_id", r.WorkerID, "is negative")
	case r.Epoch < -maxMillis || r.Epoch > maxMillis:
		return bad("epoch", int64(r.Epoch), "is no time in milliseconds")
	case r.Timestamp <= 0 || r.Timestamp > maxMillis:
		return bad("timestamp", int64(r.Timestamp), "is no time in milliseconds since 1970")
	case r.Timestamp < r.Epoch:
		return bad("timestamp", int64(r.Timestamp), fmt.Sprintf("lies before the epoch %d", int64(r.Epoch)))
	case r.Registered < 0 || r.Registered > maxMillis:
		return bad("registered", int64(r.Registered), "is no time in milliseconds since 1970")
	case r.Ceiling < 0 || r.Ceiling > maxMillis:
		return bad("ceiling", int64(r.Ceiling), "is no time in milliseconds since 1970")
	}
	texts := slices.Concat([]string{r.Cluster, r.Node, r.Layout, r.Owner, r.DirectoryID}, r.Peers, r.PriorOwners)
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return bad("text", fmt.Sprintf("%q", s), "is not valid UTF-8")
		}
	}
	return nil
}

// encode returns the file for r, or ErrBadRecord.
func encode(r worker.Record) ([]byte, error) {
	if err := Check(r); err != nil {
		return nil, err
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	raw := frame(bytes.TrimSuffix(body.Bytes(), []byte("\n")))
	if len(raw) > MaxRecordBytes {
		return nil, fmt.Errorf("%w: it takes %d bytes, the limit is %d", ErrBadRecord, len(raw), MaxRecordBytes)
	}
	return raw, nil
}

func frame(body []byte) []byte {
	sum := sha256.Sum256(body)
	raw := make([]byte, 0, len(frameHead)+sumHexLen+len(frameMiddle)+len(body)+len(frameTail))
	raw = append(raw, frameHead...)
	raw = hex.AppendEncode(raw, sum[:])
	raw = append(raw, frameMiddle...)
	raw = append(raw, body...)
	return append(raw, frameTail...)
}

// damaged returns worker.ErrDamaged with what is wrong and what to do about it.
func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s; do not delete it unread: it says up to which time IDs were issued. "+
		"Put an intact copy of the newest state back; if there is none, and the clock is right and past every ID "+
		"issued so far, move the whole data directory away", worker.ErrDamaged, fmt.Sprintf(format, args...))
}

// decode returns the record in raw, or worker.ErrDamaged or ErrNewer.
func decode(raw []byte) (worker.Record, error) {
	body, err := unframe(raw)
	if err != nil {
		return worker.Record{}, err
	}
	if err := checkFields(body); err != nil {
		return worker.Record{}, err
	}
	var r worker.Record
	if err := json.Unmarshal(body, &r); err != nil {
		return worker.Record{}, damaged("its record can't be read (%v)", err)
	}
	if err := Check(r); err != nil {
		return worker.Record{}, damaged("its checksum is right but its record is not (%v)", err)
	}
	return r, nil
}

// unframe checks all that surrounds the record, and returns the record's bytes.
func unframe(raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return nil, damaged("the file is empty")
	}
	if len(raw) > MaxRecordBytes {
		return nil, damaged("the file is larger than %d bytes", MaxRecordBytes)
	}
	var peek struct {
		Leafd json.Number `json:"leafd"`
	}
	if err := json.Unmarshal(raw, &peek); err != nil {
		return nil, damaged("the file is cut short, altered, or not leafd's (%v)", err)
	}
	v, err := peek.Leafd.Int64()
	if err != nil {
		return nil, damaged("the file is not leafd's: it names no version")
	}
	if v > version {
		return nil, fmt.Errorf("%w: its version is %d, this leafd knows %d; start the newer leafd again", ErrNewer, v, version)
	}
	rest, ok := bytes.CutPrefix(raw, []byte(frameHead))
	if !ok || len(rest) < sumHexLen {
		return nil, damaged("its first lines were altered")
	}
	sum, rest := rest[:sumHexLen], rest[sumHexLen:]
	rest, ok = bytes.CutPrefix(rest, []byte(frameMiddle))
	if !ok {
		return nil, damaged("its first lines were altered")
	}
	body, ok := bytes.CutSuffix(rest, []byte(frameTail))
	if !ok {
		return nil, damaged("its last lines were altered")
	}
	got := sha256.Sum256(body)
	if want := hex.EncodeToString(got[:]); want != string(sum) {
		return nil, damaged("its checksum is %.80q, its record's is %s", sum, want)
	}
	return body, nil
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
		fields[name] = !strings.Contains(options, "omitempty")
	}
	return fields
}
