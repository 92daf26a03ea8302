package doctor

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// space is what statfs tells.
type space struct {
	kind         string // of file system
	bytes, nodes uint64 // free for the user that runs this
	hasNodes     bool   // it counts inodes
}

// kinds of file systems by their magic number, see statfs(2).
func kindOf(magic int64) string {
	switch uint32(magic) { //nolint:gosec // it has 32 bits, regardless of its type here
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case 0xff534d42:
		return "cifs"
	case unix.SMB_SUPER_MAGIC:
		return "smb"
	case unix.SMB2_SUPER_MAGIC:
		return "smb2"
	case 0x00c36400:
		return "ceph"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case 0x2fc12fc1:
		return "zfs"
	default:
		return fmt.Sprintf("file system %#x", magic)
	}
}

func spaceOf(path string) (space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return space{}, err
	}
	return space{kind: kindOf(int64(s.Type)), bytes: s.Bavail * uint64(max(s.Bsize, 0)), nodes: s.Ffree, hasNodes: s.Files > 0}, nil //nolint:unconvert // its type differs by machine
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

// kernelClock is what adjtimex(2) tells. Nothing is set.
func kernelClock() (ntp, error) {
	var t unix.Timex // Modes 0: read only
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return ntp{}, err
	}
	return ntp{
		synchronised:   state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
		estimatedError: microseconds(int64(t.Esterror)), //nolint:unconvert // its type differs by machine
		maxError:       microseconds(int64(t.Maxerror)), //nolint:unconvert // as above
		leapSecond:     state == unix.TIME_INS || state == unix.TIME_DEL || t.Status&(unix.STA_INS|unix.STA_DEL) != 0,
	}, nil
}
