// Package plainfile reads the files that an operator names: settings, tokens,
// passwords, certificates.
package plainfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// MaxPEM bounds a file of certificates or keys, in bytes; those of a whole system have
// a quarter of that.
const MaxPEM = 1 << 20

// Read returns the content of the regular file at path, of at most most bytes, and its permissions.
// It returns the error of the system, or one that says why the file is unusable. It keeps:
//
//  1. It never waits for a writer. A FIFO without a writer would hang a start, or the
//     reload of a certificate, for good.
//  2. It opens no device, which may do something already, and may have no end.
//
// Symbolic links are followed: Kubernetes hands secrets over as such.
func Read(path string, most int64) ([]byte, fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if err := regular(path, info); err != nil {
		return nil, 0, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err = f.Stat(); err != nil {
		return nil, 0, err
	}
	if err := regular(path, info); err != nil { // it may have been replaced
		return nil, 0, err
	}
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("want at most %d bytes", most)}
	}
	return content, info.Mode().Perm(), err
}

// regular returns an error that says what else than a regular file it is.
func regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("want a regular file, not a %s", Kind(info.Mode()))}
}

// Kind returns the name of the type of file in a mode, for people.
func Kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "regular file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	default:
		return "device"
	}
}

// Exposed says, for people, that every user of the machine can read a file with a
// secret, or write to it; "" where that isn't so. name is what the file is called.
func Exposed(name string, mode fs.FileMode) string {
	able, change := "readable", "o-r"
	switch {
	case mode&0o006 == 0:
		return ""
	case mode&0o002 != 0:
		able, change = "writable", "o-rw"
	}
	return fmt.Sprintf("%s is %s to every user of this machine (mode %04o): see that the daemon's user or group has it, then chmod %s", name, able, mode, change)
}
