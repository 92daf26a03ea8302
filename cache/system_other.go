//go:build !linux

package cache

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// fileIdentity returns the inode number of the file.
func fileIdentity(_ string, held fs.FileInfo) string {
	if st, ok := held.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Ino)
	}
	return ""
}

// syncData returns when the file is durable.
func syncData(file *os.File) error { return file.Sync() }
