package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leafd/leafd/worker"
)

// Peek returns the record in the data directory dir without taking its lock, so also
// while a daemon runs: a look, nothing to build an identity on. It writes nothing.
// worker.ErrNoRecord where there is none, worker.ErrDamaged (worker.ErrLost too where
// one is missing), ErrNewer.
func Peek(dir string) (worker.Record, error) {
	path := filepath.Join(dir, recordName)
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a FIFO
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(filepath.Join(dir, markerName)); err == nil {
			return worker.Record{}, fmt.Errorf("cache: %s is missing, though a record was saved there: %w", path, errMissing)
		}
		return worker.Record{}, fmt.Errorf("cache: %s: %w", path, worker.ErrNoRecord)
	}
	if err != nil {
		return worker.Record{}, failed(path, "open the record", err)
	}
	defer func() { _ = file.Close() }() // read only
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return worker.Record{}, fmt.Errorf("cache: %s: %w", path, damaged("it is no regular file (%v)", err))
	}
	raw, err := io.ReadAll(io.LimitReader(file, MaxRecordBytes+1))
	if err != nil {
		return worker.Record{}, failed(path, "read the record", err)
	}
	r, err := decode(raw)
	if err != nil {
		return worker.Record{}, fmt.Errorf("cache: %s: %w", path, err)
	}
	return r, nil
}
