package cache_test

import (
	"errors"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Conditions that the kernel brings about, rather than a hook. Root can mount,
// but no mode of a folder keeps it out; anybody else the other way round.

// onOwnThread runs f on a thread that prepare may change (its mounts, its
// capabilities) and that ends with it.
func onOwnThread(prepare, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		err := prepare()
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// mountOn returns a prepare that mounts a file system of 64 KiB on dir, seen by
// its thread alone and gone with it.
func mountOn(dir string) func() error {
	return func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700")
	}
}

// mayMount tells whether this process may mount, and says what stands in for the
// test if it may not.
func mayMount(t *testing.T, standIn string) bool {
	t.Helper()
	err := onOwnThread(mountOn(t.TempDir()), func() error { return nil })
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Logf("this process may not mount (%v): only %s looks at this here", err, standIn)
		return false
	}
	require.NoError(t, err)
	return true
}

// dropFileCapabilities takes from its thread what lets root pass over modes.
func dropFileCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	return unix.Capset(&header, &data[0])
}
