package doctor

import (
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// space is what statfs tells.
type space struct {
	kind         string // of file system, as kinds has it; "": another
	bytes, nodes uint64 // free for the user that runs this
	hasNodes     bool   // it counts inodes
}

// kinds of file systems that a data directory should not be on, by their magic number, see statfs(2).
var kinds = map[uint32]string{ //nolint:gochecknoglobals // never written to
	unix.NFS_SUPER_MAGIC: "nfs", 0xff534d42: "smb", unix.SMB_SUPER_MAGIC: "smb", unix.SMB2_SUPER_MAGIC: "smb", 0x00c36400: "ceph",
	unix.FUSE_SUPER_MAGIC: "fuse", unix.V9FS_MAGIC: "9p",
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
}

func spaceOf(path string) (space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return space{}, err
	}
	return space{kind: kinds[uint32(s.Type)], bytes: s.Bavail * uint64(max(s.Bsize, 0)), nodes: s.Ffree, hasNodes: s.Files > 0}, nil //nolint:gosec // its type differs by machine, and it has 32 bits
}

// writable returns why the user that runs this can create nothing in dir.
func writable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

func ownerOf(info fs.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// kernelClock returns what adjtimex(2) tells. Nothing is set.
func kernelClock() (ntp, error) {
	var t unix.Timex // Modes 0: read only
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return ntp{}, err
	}
	return ntp{
		synchronised:   state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
		estimatedError: time.Duration(t.Esterror) * time.Microsecond,
		leapSecond:     state == unix.TIME_INS || state == unix.TIME_DEL || t.Status&(unix.STA_INS|unix.STA_DEL) != 0,
	}, nil
}
