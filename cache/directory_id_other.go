//go:build !linux

package cache

import (
	"fmt"
	"io/fs"
	"syscall"
)

// fileIdentity returns the inode number of the file.
func fileIdentity(_ string, held fs.FileInfo) string {
	if st, ok := held.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprint(st.Ino)
	}
	return ""
}
