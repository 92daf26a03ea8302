//go:build !linux

package cache

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// fileIdentity returns the inode number of the file.
func fileIdentity(_ string, held fs.FileInfo) (id string, born bool) {
	if st, ok := held.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Ino), false
	}
	return "", false
}

// fileSystemID returns the device that path is on.
func fileSystemID(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Dev)
	}
	return ""
}

// syncData returns when the file is durable.
func syncData(file *os.File) error { return file.Sync() }
