package ids

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
)

// The way to an ID, in every protocol that it is asked for in: admit, the count, and overload.charge, each
// of which may refuse; and then next or batch.

// admit returns where IDs of a key come from, for a caller, nil for none, that may have them.
func (s *Server) admit(settings *live, by *caller, m mode, key []byte) (*Backend, error) {
	if err := settings.callers.may(by, key); err != nil {
		return nil, err
	}
	b := s.backend.Load()
	if b == nil {
		return nil, s.NotStarted()
	}
	switch {
	case m == snowflakeMode && b.Refused != nil:
		return nil, b.Refused
	case m == snowflakeMode && b.Snowflake == nil, m == segmentMode && b.Segments == nil:
		return nil, reply.ErrModeDisabled
	}
	return b, nil
}

// next returns up to most IDs, 1 at least, to requests on c by a caller, nil for none, that arrived when the monotonic
// clock was mono: first and those that follow it; n is how many.
func (s *Server) next(c *client, by *caller, b *Backend, m mode, key []byte, most int, mono time.Duration) (first int64, n int, err error) {
	if m == snowflakeMode {
		return b.Snowflake.NextAt(s.cfg.Base, mono, most)
	}
	if first, n = b.Segments.Try(key, &c.tag, most); n > 0 {
		return first, n, nil
	}
	first, err = s.awaitRange(c, by, b, key)
	return first, 1, err
}

// InlineBytes is the size up to which a batch is copied into the response's own
// buffer, which lives as long as its connection.
const InlineBytes = 4 << 10

// pooledBytes is the size up to which each of a batch's buffers is reused.
const pooledBytes = 1 << 20

// batch is the text of one response's IDs. A large one is written by itself, so that its
// buffer returns to the pool after that: memory grows with the responses being written, not
// with connections.
type batch struct {
	s    *Server
	text []byte
	read int     // of text
	held *client // on which it is counted; nil: it is small
}

// batchIDs are the IDs of a batch until they are its text.
type batchIDs struct {
	ids    []int64
	ranges []segment.IDRange
}

// asked is a request for n IDs of a key.
type asked struct {
	c    *client
	by   *caller // nil: none
	from *Backend
	mode mode
	key  []byte
	n    int
	form form
}

// batch returns IDs as text, for its caller to release. A large one begins with pending.
func (s *Server) batch(a asked, pending []byte) (*batch, error) {
	if err := s.cfg.Base.Err(); err != nil {
		return nil, err // many may have arrived together: no memory for each
	}
	t, err := s.enter(a.c, a.by, a.from, a.mode, a.key, a.n)
	if err != nil {
		return nil, err
	}
	defer t.leave()
	out, ok := s.batches.Get().(*batch)
	if !ok {
		out = &batch{s: s}
	}
	if err := out.fill(a, pending); err != nil {
		out.release()
		return nil, err
	}
	return out, nil
}

// fill makes the text, and counts it where it is large: before any ID is
// used a list as it will be, and ranges, few as a rule, as if they were small.
func (b *batch) fill(a asked, pending []byte) error {
	s := b.s
	list, ok := s.batchIDs.Get().(*batchIDs)
	if !ok {
		list = new(batchIDs)
	}
	var err error
	if a.form.ranges() {
		if err = b.hold(a, 1); err == nil {
			list.ranges, err = a.from.ranges(s.cfg.Base, a.mode, a.key, a.n, list.ranges[:0])
		}
		if err != nil {
			return err
		}
		if size := a.form.textBytes(len(list.ranges)); size > InlineBytes {
			a.c.Grow(s.overload.unread, size) // they are used: there is no refusal any more
			b.text = append(slices.Grow(b.text, len(pending)+size), pending...)
		} else {
			b.letGo()
		}
		b.text = a.form.appendRanges(b.text, list.ranges)
	} else {
		if size := a.form.textBytes(a.n); size > InlineBytes {
			if err = b.hold(a, size); err != nil {
				return err
			}
			b.text = append(slices.Grow(b.text, len(pending)+size), pending...)
		}
		if cap(list.ids) < a.n {
			list.ids = make([]int64, a.n)
		}
		ids := list.ids[:a.n]
		if a.mode == snowflakeMode {
			err = a.from.Snowflake.NextN(s.cfg.Base, ids)
		} else {
			err = a.from.Segments.NextN(s.cfg.Base, a.key, ids)
		}
		if err != nil {
			return err
		}
		b.text = a.form.append(b.text, ids)
	}
	if 8*cap(list.ids) <= pooledBytes && 16*cap(list.ranges) <= pooledBytes {
		s.batchIDs.Put(list)
	}
	return nil
}

// hold counts size bytes as unread.
func (b *batch) hold(a asked, size int) error {
	if err := b.s.Hold(a.c.Conn, b.s.overload.unread, a.by.on(a.c), size); err != nil {
		return err
	}
	b.held = a.c
	return nil
}

// letGo counts them no more.
func (b *batch) letGo() {
	if b.held != nil {
		b.held.LetGo(b.s.overload.unread)
		b.held = nil
	}
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

// Read implements io.Reader, for fasthttp's interface; WriteTo is what it calls.
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
	b.letGo()
	if cap(b.text) > pooledBytes {
		return
	}
	b.text, b.read = b.text[:0], 0
	b.s.batches.Put(b)
}
