package unique

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// chunkBytes is when a lane hands its chunk to the writer. A chunk is longer by
// one entry at most.
const chunkBytes = 64 << 10

// fullAhead is how many chunks wait for the disk before lanes do.
const fullAhead = 64

// Journal takes IDs with their places, and finds those that came twice. Only IDs that
// must differ from each other belong in one.
type Journal struct {
	opts Options      // immutable
	file file         // immutable
	crc  *crc32.Table // immutable
	full chan encoder // chunks to write
	done chan struct{}
	err  atomic.Pointer[error] // of the writer: what broke the journal

	// Of the writer until done is closed.
	chunks []chunk
	size   int64

	mu     sync.Mutex
	lanes  []*Lane // mu protects
	closed bool    // mu protects
}

// chunk says what the file must give back, and which IDs are there.
type chunk struct {
	offset    int64
	length    int
	crc       uint32
	low, high int64
}

// file is what a journal needs of its temporary file.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// createTemp makes a file that no other process can open.
func createTemp(dir string) (file, error) {
	f, err := os.CreateTemp(dir, "leafd-unique-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// New makes a journal in a temporary file. Close it. It returns ErrMemory, or
// ErrStorage when no file could be made.
func New(opts Options) (*Journal, error) {
	opts, err := opts.check()
	if err != nil {
		return nil, err
	}
	f, err := opts.create(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: a temporary file in %s: %w", ErrStorage, opts.Dir, err)
	}
	j := &Journal{
		opts: opts, file: f, crc: crc32.MakeTable(crc32.Castagnoli),
		full: make(chan encoder, fullAhead), done: make(chan struct{}),
	}
	go j.write()
	return j, nil
}

// write writes chunks until there will be no more. After an error it goes on
// taking them, so that no lane waits forever.
func (j *Journal) write() {
	defer close(j.done)
	for e := range j.full {
		if j.Err() != nil {
			continue
		}
		n, err := j.file.Write(e.buf)
		if err == nil && n != len(e.buf) {
			err = io.ErrShortWrite
		}
		if err != nil {
			err = fmt.Errorf("%w: writing in %s after %d bytes: %w", ErrStorage, j.opts.Dir, j.size, err)
			j.err.Store(&err)
			continue
		}
		j.chunks = append(j.chunks, chunk{
			offset: j.size, length: n, crc: crc32.Checksum(e.buf, j.crc), low: e.low, high: e.high,
		})
		j.size += int64(n)
	}
}

// Err returns what broke the journal, nil while it is whole.
func (j *Journal) Err() error {
	if err := j.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Lane is one writer into a journal: for one goroutine at a time.
type Lane struct {
	j   *Journal
	enc encoder
	ids int64  // added
	sum uint64 // of the IDs added, modulo 2^64
	end bool
}

// Lane returns a new lane. It returns nil after Check or Close.
func (j *Journal) Lane() *Lane {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	l := &Lane{j: j}
	j.lanes = append(j.lanes, l)
	return l
}

// Add notes that ids came from p. It waits when the disk is slower than the IDs
// come. After an error, ErrStorage or ErrChecked, the journal has no verdict.
func (l *Lane) Add(p Place, ids []int64) error {
	if l.end {
		return ErrChecked
	}
	for len(ids) > 0 {
		part := ids[:min(len(ids), entryIDs)]
		ids = ids[len(part):]
		if l.enc.buf == nil {
			l.enc.buf = make([]byte, 0, chunkBytes+4<<10)
		}
		l.enc.add(p, part)
		l.ids += int64(len(part))
		for _, id := range part {
			l.sum += uint64(id)
		}
		if len(l.enc.buf) >= chunkBytes {
			l.flush()
		}
	}
	return l.j.Err()
}

// flush gives the chunk to the writer.
func (l *Lane) flush() {
	l.j.full <- l.enc
	l.enc = encoder{}
}

// finish ends adding: every lane's rest is written. Lanes must not be in use.
func (j *Journal) finish() (ids int64, sum uint64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, 0, ErrChecked
	}
	j.closed = true
	for _, l := range j.lanes {
		l.end = true
		if len(l.enc.buf) > 0 {
			l.flush()
		}
		ids += l.ids
		sum += l.sum
	}
	j.lanes = nil
	close(j.full)
	<-j.done
	return ids, sum, j.Err()
}

// Close gives disk and memory back. It may be called again. Lanes must not be in use.
func (j *Journal) Close() error {
	_, _, _ = j.finish() // what went wrong, Add or Check said
	err := j.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: closing in %s: %w", ErrStorage, j.opts.Dir, err)
	}
	return nil
}

// each calls f for every ID from low to high. It reads only chunks that can have
// some, and calls progress with how many chunks it has done with.
func (j *Journal) each(ctx context.Context, low, high int64, progress func(chunks int), f func(p Place, id int64)) error {
	var buf []byte
	within := func(p Place, id int64) {
		if low <= id && id <= high {
			f(p, id)
		}
	}
	for i, c := range j.chunks {
		if c.high < low || c.low > high {
			continue
		}
		progress(i)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("unique: the check was ended early: %w", err)
		}
		buf = slices.Grow(buf[:0], c.length)[:c.length]
		n, err := j.file.ReadAt(buf, c.offset)
		switch {
		case n < c.length && err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("%w: reading in %s: %w", ErrStorage, j.opts.Dir, err)
		case n < c.length:
			return fmt.Errorf("%w: in %s, %d of %d bytes at %d", ErrDamaged, j.opts.Dir, n, c.length, c.offset)
		case crc32.Checksum(buf, j.crc) != c.crc:
			return fmt.Errorf("%w: checksum of the chunk at %d", ErrDamaged, c.offset)
		}
		if err := decode(buf, within); err != nil {
			return err
		}
	}
	progress(len(j.chunks))
	return nil
}
