package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountsVariable marks a process whose mounts are its own.
const mountsVariable = "CHAOS_OWN_MOUNTS"

// ownMounts runs this program once more, where what is mounted is nobody else's
// and gone with the process; it returns that one's exit code. False where this is
// that process already, or the system doesn't allow it.
func ownMounts() (code int, again bool) {
	if os.Getenv(mountsVariable) != "" || os.Geteuid() != 0 || len(os.Args) < 2 || os.Args[1] != "run" && os.Args[1] != "mutants" {
		return 0, false
	}
	// The inner process gets the terminal's signals itself; this one waits for it.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:noctx,gosec // it hears the signals itself, and is this very program
	cmd.Env = append(os.Environ(), mountsVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitOK, true
	case errors.As(err, &exit):
		return max(exit.ExitCode(), exitViolation), true
	default:
		signal.Reset(syscall.SIGINT, syscall.SIGHUP)
		return 0, false
	}
}

// mayMount tells whether file systems may be mounted without anybody else seeing
// them.
func mayMount() bool {
	if os.Getenv(mountsVariable) == "" {
		return false
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: no disk will be full: no mounts of our own:", err)
		return false
	}
	return true
}
