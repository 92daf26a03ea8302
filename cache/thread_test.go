package cache_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Conditions that the kernel brings about, rather than a hook. Root can mount, but no
// mode of a directory keeps it out; for any other user it is the other way round.

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

// mountOn returns a prepare that mounts a file system of 128 KiB on dir, seen by
// its thread alone and gone with it.
func mountOn(dir string) func() error {
	return func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k,mode=0700")
	}
}

// childNamespace is set in a test binary that runs in a user namespace of its own.
const childNamespace = "LEAFD_CACHE_TEST_NAMESPACE"

// whereMountsWork runs test where it may mount: here, or, for a user other than root,
// in another run of the test binary that is root of a user namespace of its own.
// Where neither may be, nothing was looked at, and that is a failure.
func whereMountsWork(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	err := onOwnThread(mountOn(t.TempDir()), func() error { return nil })
	if err == nil {
		test(t)
		return
	}
	require.True(t, errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES), "mount: %v", err)
	if os.Getenv(childNamespace) == "" {
		if err = runInNamespace(t); err == nil {
			return
		}
	}
	if testing.Short() {
		t.Skipf("may not mount: %v", err)
	}
	t.Fatalf("may not mount (%v), so this looked at nothing: run it as root with CAP_SYS_ADMIN, or allow user namespaces "+
		"(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns; "+
		"in a container: --cap-add SYS_ADMIN, and a seccomp profile that lets unshare and mount pass), or run with -short", err)
}

// runInNamespace runs t's test in a child that is root of its own user and mount
// namespace. The error says why there is no such child; one that fails, fails t.
func runInNamespace(t *testing.T) error {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	args := []string{"-test.v", "-test.count=1", "-test.run=^" + t.Name() + "$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	child := exec.CommandContext(t.Context(), exe, args...)
	child.Env = append(os.Environ(), childNamespace+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	// Pdeathsig looks at the thread that starts the child, so it has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := child.Start(); err != nil {
		return err
	}
	err = child.Wait()
	require.NoError(t, err, "in a user namespace:\n%s", out.String())
	if !strings.Contains(out.String(), "--- PASS: "+t.Name()+" ") { // skipped, or not found
		return errors.New("nor in a user namespace: " + out.String())
	}
	return nil
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
