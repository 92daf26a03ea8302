package unique

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	runBuffer = 128 << 10 // bytes read or written at a time
	runBlock  = 2048      // keys decoded at a time
)

// run is a sorted file of keys, each as the difference to the one before.
type run struct {
	spool *spool
	count int64
	crc   uint32
}

// runWriter writes a run.
type runWriter struct {
	run    run
	buf    []byte
	before uint64
	table  *crc32.Table
}

func (st *storage) newRun(table *crc32.Table) (*runWriter, error) {
	s, err := st.open()
	if err != nil {
		return nil, err
	}
	return &runWriter{run: run{spool: s}, buf: make([]byte, 0, runBuffer), table: table}, nil
}

// add appends keys, which don't fall, nor below those before.
func (w *runWriter) add(keys []uint64) error {
	buf, before := w.buf, w.before
	for _, k := range keys {
		if len(buf) > runBuffer-binary.MaxVarintLen64 {
			if err := w.flush(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
		buf = binary.AppendUvarint(buf, k-before)
		before = k
	}
	w.buf, w.before = buf, before
	w.run.count += int64(len(keys))
	return nil
}

func (w *runWriter) flush(buf []byte) error {
	w.run.crc = crc32.Update(w.run.crc, w.table, buf)
	return w.run.spool.write(buf)
}

func (w *runWriter) close() (run, error) {
	err := w.flush(w.buf)
	w.buf = nil
	return w.run, err
}

// source gives keys that don't fall, block by block.
type source struct {
	keys []uint64 // of the block; the first is next
	// Of a run; nil spool: a source in memory, which has one block.
	run    run
	block  []uint64
	buf    []byte
	left   []byte // of buf
	offset int64
	crc    uint32
	got    int64
	before uint64
	table  *crc32.Table
}

func memorySource(keys []uint64) *source { return &source{keys: keys} }

func (r run) source(table *crc32.Table) *source {
	return &source{run: r, block: make([]uint64, 0, runBlock), buf: make([]byte, runBuffer), table: table}
}

// fill decodes the next block when the present one is used up; keys stays empty
// at the end of the run, which has been as it was written then (U3).
func (s *source) fill() error {
	if len(s.keys) > 0 || s.run.spool == nil {
		return nil
	}
	want := int(min(runBlock, s.run.count-s.got))
	block := s.block[:0]
	left, before := s.left, s.before
	for len(block) < want {
		if len(left) > 0 && left[0] < 0x80 { // most are one byte
			before += uint64(left[0])
			left = left[1:]
			block = append(block, before)
			continue
		}
		v, n := binary.Uvarint(left)
		if n <= 0 {
			var err error
			if left, err = s.read(left); err != nil {
				return err
			}
			continue
		}
		if before+v < before {
			return fmt.Errorf("%w: a sorted run falls", ErrDamaged)
		}
		before += v
		left = left[n:]
		block = append(block, before)
	}
	s.left, s.before, s.keys, s.block = left, before, block, block
	s.got += int64(len(block))
	if want == 0 && (len(left) > 0 || s.offset != s.run.spool.size || s.crc != s.run.crc) {
		return fmt.Errorf("%w: checksum of a sorted run", ErrDamaged)
	}
	return nil
}

// read brings more bytes behind those that are left.
func (s *source) read(left []byte) ([]byte, error) {
	kept := copy(s.buf, left)
	want := int(min(int64(len(s.buf)-kept), s.run.spool.size-s.offset))
	if want <= 0 || kept >= binary.MaxVarintLen64 {
		return nil, fmt.Errorf("%w: a sorted run has %d keys, not %d", ErrDamaged, s.got, s.run.count)
	}
	fresh := s.buf[kept : kept+want]
	if err := s.run.spool.readAt(fresh, s.offset); err != nil {
		return nil, err
	}
	s.offset += int64(want)
	s.crc = crc32.Update(s.crc, s.table, fresh)
	return s.buf[:kept+want], nil
}
