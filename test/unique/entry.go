package unique

import (
	"encoding/binary"
	"fmt"
	"time"
)

// An entry of the journal is an answer, or entryIDs of its IDs: client, request,
// microseconds, number of IDs and the IDs, all as varints. But for the number of
// IDs they are differences to the entry before in the same chunk, to zero in the
// first, so that a chunk can be read without the others. Differences wrap around,
// there and back, so that any int64 can be written.

// entryIDs is how many IDs an entry has at most: it bounds the length of a chunk.
const entryIDs = 4096

// last is what the differences of the next entry are taken to.
type last struct {
	client, request, micros, id int64
}

// encoder fills the buffer of one chunk.
type encoder struct {
	buf       []byte
	last      last
	low, high int64 // of the IDs
}

// add appends an entry of at least one ID.
func (e *encoder) add(p Place, ids []int64) {
	now := last{client: int64(p.Client), request: p.Request, micros: p.At.Microseconds(), id: e.last.id}
	if len(e.buf) == 0 {
		e.low, e.high = ids[0], ids[0]
	}
	b := binary.AppendVarint(e.buf, now.client-e.last.client)
	b = binary.AppendVarint(b, now.request-e.last.request)
	b = binary.AppendVarint(b, now.micros-e.last.micros)
	b = binary.AppendVarint(b, int64(len(ids)))
	for _, id := range ids {
		b = binary.AppendVarint(b, id-now.id)
		now.id = id
		e.low, e.high = min(e.low, id), max(e.high, id)
	}
	e.buf, e.last = b, now
}

// decode calls f for each ID of a chunk.
func decode(chunk []byte, f func(p Place, id int64)) error {
	var last last
	var client, request, micros, n, id int64
	for at := 0; at < len(chunk); {
		client, at = varint(chunk, at)
		request, at = varint(chunk, at)
		micros, at = varint(chunk, at)
		n, at = varint(chunk, at)
		last.client += client
		last.request += request
		last.micros += micros
		p := Place{Client: int(last.client), Request: last.request, At: time.Duration(last.micros) * time.Microsecond}
		for ; n > 0 && at <= len(chunk); n-- {
			if id, at = varint(chunk, at); at <= len(chunk) {
				last.id += id
				f(p, last.id)
			}
		}
		if at > len(chunk) {
			return fmt.Errorf("%w: a chunk that can't be decoded", ErrDamaged)
		}
	}
	return nil
}

// varint returns the varint of chunk at an offset, and the offset of what follows:
// one beyond the end of chunk when there was none.
func varint(chunk []byte, at int) (v int64, next int) {
	if at < len(chunk) && chunk[at] < 0x80 { // most are one byte
		b := int64(chunk[at])
		return b>>1 ^ -(b & 1), at + 1
	}
	return longVarint(chunk, at)
}

func longVarint(chunk []byte, at int) (v int64, next int) {
	v, n := binary.Varint(chunk[min(at, len(chunk)):])
	if n <= 0 {
		return 0, len(chunk) + 1
	}
	return v, at + n
}
