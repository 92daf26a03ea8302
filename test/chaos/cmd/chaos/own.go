package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/test/chaos/cluster"
)

// ownVariable marks a process that has some of the system for itself, and names that.
const ownVariable = "CHAOS_OWN"

// What a process can have for itself.
const (
	ownMounts  = "mounts"
	ownNetwork = "network"
)

// isolate runs this program once more, where what is mounted, and what networks there
// are, belongs to it alone and is gone with the process; it returns that one's exit code.
// False where this is that process already, or the system doesn't allow it.
func isolate() (code int, again bool) {
	if os.Getenv(ownVariable) != "" || os.Geteuid() != 0 || len(os.Args) < 2 || os.Args[1] != "run" && os.Args[1] != "mutants" {
		return 0, false
	}
	// The inner process gets the terminal's signals itself; this one waits for it.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	for _, own := range [][]string{{ownMounts, ownNetwork}, {ownMounts}} {
		attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
		if slices.Contains(own, ownNetwork) {
			if missing := cluster.MissingForNetworks(); missing != "" {
				fmt.Fprintf(os.Stderr, "chaos: no daemon will have a network of its own: %s is missing\n", missing)
				continue
			}
			attr.Cloneflags |= syscall.CLONE_NEWNET
		}
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:noctx,gosec // it hears the signals itself, and is this very program
		cmd.Env = append(os.Environ(), ownVariable+"="+strings.Join(own, ","))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = attr
		err := cmd.Run()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return exitOK, true
		case errors.As(err, &exit):
			return max(exit.ExitCode(), exitViolation), true
		}
		fmt.Fprintf(os.Stderr, "chaos: the system gives no %s of our own: %v\n", strings.Join(own, " and "), err)
	}
	signal.Reset(syscall.SIGINT, syscall.SIGHUP)
	return 0, false
}

func owns(what string) bool {
	return slices.Contains(strings.Split(os.Getenv(ownVariable), ","), what)
}

// mayMount tells whether file systems may be mounted without any other process seeing
// them.
func mayMount() bool {
	if !owns(ownMounts) {
		return false
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "chaos: no disk will be full: no mounts of our own:", err)
		return false
	}
	return true
}
