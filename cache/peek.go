package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/leafd/leafd/worker"
)

// Peek returns the record in the data directory dir without taking its lock, so also while a daemon
// runs: a look, nothing to build an identity on, and MaybeStale where a slot is being written right
// now. It writes nothing. It returns worker.ErrNoRecord if none was saved, worker.ErrDamaged if it
// can't be trusted (worker.ErrLost too if it is missing), ErrUnknownFormat if another leafd wrote
// it.
func Peek(dir string) (worker.Record, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return worker.Record{}, fmt.Errorf("%s: %w", dir, worker.ErrNoRecord)
	}
	if err != nil {
		return worker.Record{}, failed(dir, "open the data directory", err)
	}
	defer func() { _ = root.Close() }() // read only
	found, err := (&directory{path: dir, root: root}).read()
	return found.record, err
}
