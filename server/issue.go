package server

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/resp"
	"github.com/leafd/leafd/snowflake"
)

// The way to an ID, in every protocol that it is asked for in: source and overload.charge, each
// of which may refuse, and then next or batch.

// source returns the backend, where it has the mode.
func (s *Server) source(m mode) (*Backend, error) {
	b := s.backend.Load()
	if b == nil {
		return nil, s.notStarted()
	}
	switch {
	case m == snowflakeMode && b.Refused != nil:
		return nil, b.Refused
	case m == snowflakeMode && b.Snowflake == nil, m == segmentMode && b.Segments == nil:
		return nil, errModeDisabled
	}
	return b, nil
}

// next returns up to most IDs, 1 at least, to requests on c that arrived when the monotonic
// clock was mono: first and those that follow it; n is how many.
func (s *Server) next(c *conn, b *Backend, m mode, key []byte, most int, mono time.Duration) (first int64, n int, err error) {
	if m == snowflakeMode {
		return b.Snowflake.NextAt(s.base, mono, most)
	}
	if first, n = b.Segments.Try(key, &c.tag, most); n > 0 {
		return first, n, nil
	}
	first, err = s.awaitRange(b, key)
	return first, 1, err
}

// inlineBytes is the size up to which a batch is copied into the response's own
// buffer, which lives as long as its connection.
const inlineBytes = 4 << 10

// pooledBytes is the size up to which each of a batch's buffers is reused.
const pooledBytes = 1 << 20

// batch is the text of one response's IDs. A large one is written by itself, so that its
// buffer returns to the pool after that: memory grows with the responses being written, not
// with connections.
type batch struct {
	s       *Server
	text    []byte
	read    int   // of text
	counted int64 // in the gate of unread batches; 0: it is small
}

// batchIDs are the IDs of a batch until they are its text.
type batchIDs struct {
	ids    []int64
	ranges []segment.IDRange
}

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

// textForm is the form of an answer by HTTP.
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

func (f form) ranges() bool { return f >= formRanges }

// textBytes is at least what the text of n IDs, or ranges, takes in any form.
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

// batch returns n IDs as text, for its caller to release. A large one begins with pending.
func (s *Server) batch(b *Backend, m mode, key []byte, n int, f form, pending []byte) (*batch, error) {
	if err := s.base.Err(); err != nil {
		return nil, err // many may have arrived together: no memory for each
	}
	if err := s.overload.enter(b, m, n); err != nil {
		return nil, err
	}
	defer s.overload.leave(m, n)
	out, ok := s.batches.Get().(*batch)
	if !ok {
		out = &batch{s: s}
	}
	if err := out.fill(b, m, key, n, f, pending); err != nil {
		out.release()
		return nil, err
	}
	return out, nil
}

// fill makes the text of n IDs, and counts it where it is large: before any ID is
// used a list as it will be, and ranges, few as a rule, as if they were small.
func (b *batch) fill(from *Backend, m mode, key []byte, n int, f form, pending []byte) error {
	s := b.s
	list, ok := s.batchIDs.Get().(*batchIDs)
	if !ok {
		list = new(batchIDs)
	}
	var err error
	if f.ranges() {
		most := s.cfg.portion(maxUnreadBatches)
		if err = b.count(0, most); err == nil {
			list.ranges, err = from.ranges(s.base, m, key, n, list.ranges[:0])
		}
		if err != nil {
			return err
		}
		if size := f.textBytes(len(list.ranges)); size > inlineBytes {
			_ = b.count(size, 0) // they are used: there is no refusal any more
			b.text = append(slices.Grow(b.text, len(pending)+size), pending...)
		}
		b.text = f.appendRanges(b.text, list.ranges)
	} else {
		if size := f.textBytes(n); size > inlineBytes {
			if err = b.count(size, s.cfg.portion(maxUnreadBatches)); err != nil {
				return err
			}
			b.text = append(slices.Grow(b.text, len(pending)+size), pending...)
		}
		if cap(list.ids) < n {
			list.ids = make([]int64, n)
		}
		ids := list.ids[:n]
		if m == snowflakeMode {
			err = from.Snowflake.NextN(s.base, ids)
		} else {
			err = from.Segments.NextN(s.base, key, ids)
		}
		if err != nil {
			return err
		}
		b.text = f.append(b.text, ids)
	}
	if 8*cap(list.ids) <= pooledBytes && 16*cap(list.ranges) <= pooledBytes {
		s.batchIDs.Put(list)
	}
	return nil
}

// count counts size bytes in the gate of unread batches, unless they are most already.
func (b *batch) count(size int, most int64) error {
	if !b.s.overload.unread[unreadBatches].Enter(int64(size), most) {
		b.s.overload.shed[shedUnread].Inc()
		return errOverloaded.with("%d MiB of IDs are not read yet", most>>20)
	}
	b.counted = int64(size)
	return nil
}

// ranges appends n IDs to dst: those of snowflake are one range for each millisecond in which
// they were reserved.
func (b *Backend) ranges(ctx context.Context, m mode, key []byte, n int, dst []segment.IDRange) ([]segment.IDRange, error) {
	if m == segmentMode {
		return b.Segments.NextRanges(ctx, key, n, dst)
	}
	for n > 0 {
		first, got, err := b.Snowflake.NextRange(ctx, n)
		if err != nil {
			return dst, err
		}
		dst = append(dst, segment.IDRange{First: first, Last: first + int64(got) - 1})
		n -= got
	}
	return dst, nil
}

// Read is io.Reader, for fasthttp's interface; WriteTo is what it calls.
func (b *batch) Read(p []byte) (int, error) {
	if b.read == len(b.text) {
		return 0, io.EOF
	}
	n := copy(p, b.text[b.read:])
	b.read += n
	return n, nil
}

// WriteTo writes what is left in one go.
func (b *batch) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.text[b.read:])
	b.read += n
	return int64(n), err
}

// Close releases the buffers. fasthttp calls it once, written or not.
func (b *batch) Close() error {
	b.release()
	return nil
}

func (b *batch) release() {
	b.s.overload.unread[unreadBatches].Leave(b.counted)
	if cap(b.text) > pooledBytes {
		return
	}
	b.text, b.read, b.counted = b.text[:0], 0, 0
	b.s.batches.Put(b)
}
