//go:build !unix

package daemon

import "errors"

// OpenFiles returns errors.ErrUnsupported: this system has no limit that can be read.
func OpenFiles() (uint64, error) { return 0, errors.ErrUnsupported }
