package unique

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
)

// laneChunks is how many chunks a lane has: one that it fills, while the others
// wait for the disk. A lane whose chunks all wait blocks until one is written.
const laneChunks = 3

// fullAhead is how many full chunks wait for the writer before lanes do.
const fullAhead = 64

// Journal takes IDs with their places, and tells which came twice. Only IDs that
// must differ from each other belong into one.
type Journal struct {
	opts  Options      // immutable
	table *crc32.Table // immutable
	st    *storage     // immutable
	spool *spool       // of the writer until it has ended
	full  chan *chunk  // chunks to write
	done  chan struct{}
	fault atomic.Pointer[error] // of the writer: what broke the journal (U1)

	mu     sync.Mutex
	lanes  []*Lane // mu protects
	closed bool    // mu protects
}

// New makes a journal in a temporary file. Close it. It returns ErrMemory, or
// ErrStorage when no file could be made.
func New(opts Options) (*Journal, error) {
	opts, err := opts.check()
	if err != nil {
		return nil, err
	}
	j := &Journal{
		opts: opts, table: newCastagnoli(), st: &storage{opts: opts},
		full: make(chan *chunk, fullAhead), done: make(chan struct{}),
	}
	if j.spool, err = j.st.open(); err != nil {
		return nil, err
	}
	go j.write()
	return j, nil
}

// write writes chunks until there will be no more. After an error it goes on
// taking them, so that no lane waits forever.
func (j *Journal) write() {
	defer close(j.done)
	for c := range j.full {
		if j.fault.Load() == nil {
			if err := j.spool.write(c.buf); err != nil {
				j.fault.Store(&err)
			}
		}
		// There is room for all of a lane's chunks: this doesn't wait.
		c.home <- c
	}
}

// chunk is memory that goes from its lane to the writer and back.
type chunk struct {
	buf  []byte
	home chan *chunk
}

// Err returns what broke the journal, nil while it is whole.
func (j *Journal) Err() error {
	if err := j.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Lane is one writer into a journal: for one goroutine at a time.
type Lane struct {
	j    *Journal
	enc  encoder
	now  *chunk      // its memory is enc's
	free chan *chunk // chunks that were written
	ids  int64       // of chunks that were given to the writer
	sum  uint64
	shut bool
}

// Lane returns a new lane. It returns nil after Check or Close.
func (j *Journal) Lane() *Lane {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	l := &Lane{j: j, free: make(chan *chunk, laneChunks)}
	for range laneChunks {
		l.free <- &chunk{buf: make([]byte, 0, chunkBytes), home: l.free}
	}
	l.begin()
	j.lanes = append(j.lanes, l)
	return l
}

// Add notes that ids came from p. It waits when the disk is slower than the IDs
// come. After an error, ErrStorage or ErrChecked, the journal has no verdict.
func (l *Lane) Add(p Place, ids []int64) error {
	if l.shut {
		return ErrChecked
	}
	for rest := ids; len(rest) > 0; {
		if rest = l.enc.add(p, rest); len(rest) > 0 {
			l.flush()
		}
	}
	return l.j.Err()
}

// flush hands the chunk to the writer and begins another.
func (l *Lane) flush() {
	l.hand()
	l.begin()
}

func (l *Lane) begin() {
	l.now = <-l.free
	l.enc = newEncoder(l.now.buf)
}

func (l *Lane) hand() {
	l.ids += l.enc.ids
	l.sum += l.enc.sum
	l.now.buf = l.enc.seal(l.j.table)
	l.j.full <- l.now
}

// finish ends adding: every lane's rest is written. Lanes must not be in use.
func (j *Journal) finish() (ids int64, sum uint64, err error) {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return 0, 0, ErrChecked
	}
	j.closed = true
	lanes := j.lanes
	j.mu.Unlock()
	for _, l := range lanes {
		l.shut = true
		if !l.enc.empty() {
			l.hand()
		}
		ids += l.ids
		sum += l.sum
	}
	close(j.full)
	<-j.done
	j.mu.Lock()
	j.lanes = nil // and their chunks: the memory is for sorting now
	j.mu.Unlock()
	return ids, sum, j.Err()
}

// Close gives disk and memory back. Lanes must not be in use.
func (j *Journal) Close() error {
	_, _, err := j.finish()
	if errors.Is(err, ErrChecked) || errors.Is(err, ErrStorage) {
		err = nil // Add or Check said so
	}
	return errors.Join(err, j.spool.close())
}

// each calls f for every chunk, in the order of their coming, and checks that
// they hold want IDs in all.
func (j *Journal) each(ctx context.Context, want int64, f func(chunk []byte, done int64) error) error {
	buf := make([]byte, chunkBytes)
	var seen int64
	for offset := int64(0); offset < j.spool.size; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("unique: the check was ended early: %w", err)
		}
		chunk, ids, err := readChunk(j.spool, offset, buf, j.table)
		if err != nil {
			return err
		}
		offset += int64(len(chunk))
		seen += ids
		if err := f(chunk, seen); err != nil {
			return err
		}
	}
	if seen != want {
		return fmt.Errorf("%w: the journal has %d IDs, %d were added", ErrDamaged, seen, want)
	}
	return nil
}
