package unique

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// A chunk is what a lane writes at a time: a head and then entries, one for an
// answer. The numbers of an entry are differences to those of the entry before,
// zero before the first, so that each chunk is read without the others.
//
//	head   length of the entries, number of IDs, checksum of both and the entries; 4 bytes each
//	entry  client, request, microseconds, number of IDs, the IDs
const (
	chunkBytes = 64 << 10 // of a whole chunk, at most
	headBytes  = 12
	// entryBytes is the longest entry without its IDs; idBytes the longest ID.
	entryBytes = 4 * binary.MaxVarintLen64
	idBytes    = binary.MaxVarintLen64
)

// newCastagnoli is the polynomial that processors have an instruction for.
func newCastagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// zigzag maps small differences of either sign to small numbers.
func zigzag(d int64) uint64   { return uint64(d<<1) ^ uint64(d>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// cursor is the entry that the next one's numbers are told from. Differences
// wrap around, there and back, so that any int64 will do.
type cursor struct {
	client, request, micros, id int64
}

// encoder fills one chunk.
type encoder struct {
	buf []byte // head, left empty until seal, and entries
	at  cursor
	ids int64
	sum uint64 // of the IDs, modulo 2^64
}

func newEncoder(buf []byte) encoder {
	return encoder{buf: append(buf[:0], make([]byte, headBytes)...)}
}

func (e *encoder) empty() bool { return e.ids == 0 }

// add takes as many of ids as fit, and returns the rest.
func (e *encoder) add(p Place, ids []int64) []int64 {
	room := (chunkBytes - len(e.buf) - entryBytes) / idBytes
	if room <= 0 {
		return ids
	}
	taken := ids[:min(room, len(ids))]
	micros := p.At.Microseconds()
	b := e.buf
	b = binary.AppendUvarint(b, zigzag(int64(p.Client)-e.at.client))
	b = binary.AppendUvarint(b, zigzag(p.Request-e.at.request))
	b = binary.AppendUvarint(b, zigzag(micros-e.at.micros))
	b = binary.AppendUvarint(b, uint64(len(taken)))
	before, sum := e.at.id, e.sum
	for _, id := range taken {
		b = binary.AppendUvarint(b, zigzag(id-before))
		before = id
		sum += uint64(id)
	}
	e.buf, e.sum = b, sum
	e.ids += int64(len(taken))
	e.at = cursor{client: int64(p.Client), request: p.Request, micros: micros, id: before}
	return ids[len(taken):]
}

// seal completes the head and returns the chunk.
func (e *encoder) seal(table *crc32.Table) []byte {
	binary.LittleEndian.PutUint32(e.buf[0:], uint32(len(e.buf)-headBytes))
	binary.LittleEndian.PutUint32(e.buf[4:], uint32(e.ids))
	binary.LittleEndian.PutUint32(e.buf[8:], chunkSum(e.buf, table))
	return e.buf
}

func chunkSum(chunk []byte, table *crc32.Table) uint32 {
	return crc32.Update(crc32.Checksum(chunk[:8], table), table, chunk[headBytes:])
}

// readChunk reads the chunk at offset into buf and returns it whole, with the
// number of its IDs (U2).
func readChunk(s *spool, offset int64, buf []byte, table *crc32.Table) (chunk []byte, ids int64, err error) {
	buf = buf[:chunkBytes]
	if err := s.readAt(buf[:headBytes], offset); err != nil {
		return nil, 0, err
	}
	length := int64(binary.LittleEndian.Uint32(buf[0:]))
	if length > chunkBytes-headBytes || offset+headBytes+length > s.size {
		return nil, 0, fmt.Errorf("%w: a chunk of %d bytes at %d", ErrDamaged, length, offset)
	}
	chunk = buf[:headBytes+length]
	if err := s.readAt(chunk[headBytes:], offset+headBytes); err != nil {
		return nil, 0, err
	}
	if binary.LittleEndian.Uint32(buf[8:]) != chunkSum(chunk, table) {
		return nil, 0, fmt.Errorf("%w: checksum of the chunk at %d", ErrDamaged, offset)
	}
	return chunk, int64(binary.LittleEndian.Uint32(buf[4:])), nil
}

// decoder walks a chunk's entries.
type decoder struct {
	buf []byte
	at  cursor
	bad bool
}

func newDecoder(chunk []byte) decoder { return decoder{buf: chunk[headBytes:]} }

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.buf)
	if n <= 0 {
		d.bad = true
		d.buf = nil
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

// entry appends the IDs of the next entry to ids; more is false at the end.
func (d *decoder) entry(ids []int64) (p Place, got []int64, more bool) {
	if len(d.buf) == 0 {
		return Place{}, ids, false
	}
	d.at.client += unzigzag(d.number())
	d.at.request += unzigzag(d.number())
	d.at.micros += unzigzag(d.number())
	count := d.number()
	if count > uint64(len(d.buf)) {
		d.bad = true
		return Place{}, ids, false
	}
	id := d.at.id
	for range count {
		if len(d.buf) > 0 && d.buf[0] < 0x80 { // most are one byte
			id += unzigzag(uint64(d.buf[0]))
			d.buf = d.buf[1:]
		} else {
			id += unzigzag(d.number())
		}
		ids = append(ids, id)
	}
	d.at.id = id
	place := Place{Client: int(d.at.client), Request: d.at.request, At: time.Duration(d.at.micros) * time.Microsecond}
	return place, ids, !d.bad
}
