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

// ownVariable marks the process that has mounts and networks of its own.
const ownVariable = "CHAOS_OWN"

// isolate runs this program once more, where mounts and networks belong to it alone and are gone with the
// process; it returns that one's exit code. It returns false where this is that process already, or the system doesn't allow it.
func isolate() (code int, again bool) {
	if os.Getenv(ownVariable) != "" || os.Geteuid() != 0 {
		return 0, false
	}
	for _, program := range []string{"ip", "tc", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			fmt.Fprintln(os.Stderr, "chaos: no networks and no full disks:", err)
			return 0, false
		}
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP) // the inner process gets the terminal's itself
	defer signal.Reset(syscall.SIGINT, syscall.SIGHUP)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:noctx,gosec // it gets the signals itself, and is this program
	cmd.Env = append(os.Environ(), ownVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit):
		return max(exit.ExitCode(), exitBroken), true
	}
	fmt.Fprintln(os.Stderr, "chaos: no networks and no full disks:", err)
	return 0, false
}

// settleIn readies the mounts and the network of a process that has its own, and reports whether it does.
func settleIn() (owned bool, err error) {
	if os.Getenv(ownVariable) == "" {
		return false, nil
	}
	return true, errors.Join(
		os.NewSyscallError("mount", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")),
		execute("ip", "link", "set", "lo", "up"),
		execute("ip", "address", "add", home+"/32", "dev", "lo"),
	)
}
