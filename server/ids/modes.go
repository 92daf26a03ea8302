package ids

import (
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/resp"
	"github.com/leafd/leafd/snowflake"
)

// mode is a kind of ID.
type mode uint8

const (
	noMode mode = iota
	snowflakeMode
	segmentMode
	modes // their number
)

const (
	snowflakePrefix = "/api/snowflake/get/"
	segmentPrefix   = "/api/segment/get/"
)

// kinds is the table of modes: the name in labels, and the longest key in bytes. A key of segment IDs is a tag, which
// has 128 characters at most.
//
//nolint:gochecknoglobals // never written to
var kinds = [modes]struct {
	name   string
	maxKey int
}{
	snowflakeMode: {"snowflake", 128},
	segmentMode:   {"segment", segment.MaxTagBytes},
}

// matchIDs returns the mode of a request for IDs, and its key and query.
func matchIDs(target []byte) (mode, []byte) {
	if len(target) >= len(snowflakePrefix) && string(target[:len(snowflakePrefix)]) == snowflakePrefix {
		return snowflakeMode, target[len(snowflakePrefix):]
	}
	if len(target) >= len(segmentPrefix) && string(target[:len(segmentPrefix)]) == segmentPrefix {
		return segmentMode, target[len(segmentPrefix):]
	}
	return noMode, nil
}

// redisModes are the modes of package resp.
//
//nolint:gochecknoglobals // never written to
var redisModes = [...]mode{resp.Snowflake: snowflakeMode, resp.Segment: segmentMode}

// redisForms are the forms of package resp.
//
//nolint:gochecknoglobals // never written to
var redisForms = [...]form{resp.Integers: formRESP, resp.Strings: formRESPStrings, resp.Ranges: formRangesRESP}

// form is how a batch is written.
type form uint8

const (
	formLines form = iota // one ID a line
	formJSON              // strings: JavaScript's numbers end at 2^53
	formRESP
	formRESPStrings
	formRanges // first-last a line
	formRangesJSON
	formRangesRESP // pairs of strings
)

// forms is the table of forms: whether one has ranges, and its content type by HTTP.
//
//nolint:gochecknoglobals // never written to
var forms = [...]struct {
	ranges      bool
	contentType string
}{
	formLines:       {false, reply.ContentText},
	formJSON:        {false, reply.ContentJSON},
	formRESP:        {},
	formRESPStrings: {},
	formRanges:      {true, reply.ContentText},
	formRangesJSON:  {true, reply.ContentJSON},
	formRangesRESP:  {ranges: true},
}

// textForm returns the form of an answer by HTTP.
func textForm(asJSON, ranges bool) form {
	switch {
	case ranges && asJSON:
		return formRangesJSON
	case ranges:
		return formRanges
	case asJSON:
		return formJSON
	}
	return formLines
}

func (f form) ranges() bool { return forms[f].ranges }

// textBytes returns at least what the text of n IDs, or ranges, takes in any form.
func (f form) textBytes(n int) int {
	const array, id, pair = len(`{"ranges":[]}`) + maxDigits, len("$19\r\n\r\n") + maxDigits, len(`{"first":"","last":""},`) + 2*maxDigits
	if f.ranges() {
		return array + n*(pair+len("*2\r\n"))
	}
	return array + n*id
}

// append appends the text of IDs.
func (f form) append(b []byte, ids []int64) []byte {
	switch f {
	case formLines:
		for _, id := range ids {
			b = append(snowflake.AppendDecimal(b, id), '\n')
		}
	case formJSON:
		b = append(b, `{"ids":[`...)
		for i, id := range ids {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(snowflake.AppendDecimal(append(b, '"'), id), '"')
		}
		b = append(b, ']', '}')
	case formRESP:
		b = resp.AppendArray(b, len(ids))
		for _, id := range ids {
			b = resp.AppendInt(b, id)
		}
	case formRESPStrings:
		b = resp.AppendArray(b, len(ids))
		for _, id := range ids {
			b = resp.AppendIntText(b, id)
		}
	case formRanges, formRangesJSON, formRangesRESP: // appendRanges
	}
	return b
}

// appendRanges appends the text of ranges.
func (f form) appendRanges(b []byte, ranges []segment.IDRange) []byte {
	switch f {
	case formRangesJSON:
		b = append(b, `{"ranges":[`...)
		for i, r := range ranges {
			if i > 0 {
				b = append(b, ',')
			}
			b = snowflake.AppendDecimal(append(b, `{"first":"`...), r.First)
			b = append(snowflake.AppendDecimal(append(b, `","last":"`...), r.Last), `"}`...)
		}
		b = append(b, ']', '}')
	case formRangesRESP:
		b = resp.AppendArray(b, len(ranges))
		for _, r := range ranges {
			b = resp.AppendIntText(resp.AppendIntText(resp.AppendArray(b, 2), r.First), r.Last)
		}
	default:
		for _, r := range ranges {
			b = append(snowflake.AppendDecimal(b, r.First), '-')
			b = append(snowflake.AppendDecimal(b, r.Last), '\n')
		}
	}
	return b
}
