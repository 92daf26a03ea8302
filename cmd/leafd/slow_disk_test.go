package main

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// slowVariable names a file with how long each fsync of a daemon takes.
const slowVariable = "LEAFDTEST_FSYNC_TAKES"

// slowDisk is a disk that takes as long for an fsync as a test says: the kernel holds the daemon in
// the system call (seccomp_unotify(2)), which then is made.
type slowDisk struct{ path string }

func newSlowDisk(t *testing.T) slowDisk {
	t.Helper()
	d := slowDisk{t.TempDir() + "/takes"}
	d.takes(t, 0)
	return d
}

// takes sets how long each fsync takes, those under way included.
func (d slowDisk) takes(t *testing.T, long time.Duration) {
	t.Helper()
	require.NoError(t, os.WriteFile(d.path+".new", []byte(long.String()), 0o600))
	require.NoError(t, os.Rename(d.path+".new", d.path))
}

// under has a daemon use that disk.
func (d slowDisk) under(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, slowVariable+"="+d.path) }

// holdFsyncs has the kernel hold each fsync and fdatasync of this process for as long as the file says.
func holdFsyncs(path string) error {
	runtime.LockOSThread() // until all threads have the filter
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	listener, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	go func() {
		for {
			var held struct { // struct seccomp_notif
				id   uint64
				rest [9]uint64
			}
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, listener, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&held))); errno != 0 {
				continue // interrupted
			}
			go func() {
				for began := time.Now(); time.Since(began) < taking(path); {
					time.Sleep(10 * time.Millisecond)
				}
				answer := struct { // struct seccomp_notif_resp
					id    uint64
					val   int64
					errno int32
					flags uint32
				}{id: held.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
				_, _, _ = unix.Syscall(unix.SYS_IOCTL, listener, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer))) // it fails where the call was interrupted
			}()
		}
	}()
	return nil
}

func taking(path string) time.Duration {
	text, _ := os.ReadFile(path) // gone with its test
	long, _ := time.ParseDuration(string(text))
	return long
}
