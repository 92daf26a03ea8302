package unique

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// file is what the check needs of a temporary file.
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
	err = os.Remove(f.Name())
	if err == nil {
		return f, nil
	}
	// Where open files can't be removed it goes when it is closed.
	return &namedFile{File: f}, nil
}

// namedFile is a file that is removed when it is closed.
type namedFile struct{ *os.File }

func (f *namedFile) Close() error {
	err := f.File.Close()
	if removed := os.Remove(f.Name()); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// storage makes the files of one check and knows how much they hold.
type storage struct {
	opts Options
	used atomic.Int64
	peak atomic.Int64
}

// spool is one temporary file, written from the front to the end and then read.
type spool struct {
	f    file
	st   *storage
	size int64
}

func (st *storage) open() (*spool, error) {
	f, err := st.opts.create(st.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: a temporary file in %s: %w", ErrStorage, st.opts.Dir, err)
	}
	return &spool{f: f, st: st}, nil
}

// write appends p.
func (s *spool) write(p []byte) error {
	n, err := s.f.Write(p)
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("%w: writing in %s, %d bytes in use: %w", ErrStorage, s.st.opts.Dir, s.st.used.Load(), err)
	}
	s.size += int64(n)
	used := s.st.used.Add(int64(n))
	for {
		peak := s.st.peak.Load()
		if used <= peak || s.st.peak.CompareAndSwap(peak, used) {
			return nil
		}
	}
}

// readAt fills p from offset: what was written is there, or it is an error.
func (s *spool) readAt(p []byte, offset int64) error {
	n, err := s.f.ReadAt(p, offset)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%w: in %s, %d of %d bytes at %d", ErrDamaged, s.st.opts.Dir, n, len(p), offset)
	default:
		return fmt.Errorf("%w: reading in %s: %w", ErrStorage, s.st.opts.Dir, err)
	}
}

// close gives the disk space back. It may be called again.
func (s *spool) close() error {
	if s == nil || s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	s.st.used.Add(-s.size)
	if err != nil {
		return fmt.Errorf("%w: closing in %s: %w", ErrStorage, s.st.opts.Dir, err)
	}
	return nil
}
