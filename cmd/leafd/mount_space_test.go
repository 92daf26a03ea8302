package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/proctest"
)

// mountSpace is where daemons see mounts, and a machine ID, of their own. It ends with the
// process that holds it.
type mountSpace struct{ holder *proctest.Process }

// newMountSpace makes one with a file system of a kind at dir, and the machine ID; empty: none
// can be read.
func newMountSpace(t *testing.T, kind, dir, machineID string) *mountSpace {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	id, made := filepath.Join(t.TempDir(), "machine-id"), filepath.Join(t.TempDir(), "made")
	require.NoError(t, os.WriteFile(id, []byte(machineID), 0o600))
	script := fmt.Sprintf(`set -e
mount --make-rprivate /
mount -t %s none '%s'
if [ -e /etc/machine-id ]; then mount --bind '%s' /etc/machine-id; fi
touch '%s'
exec sleep 3600`, kind, dir, id, made)
	cmd := exec.Command("sh", "-c", script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	holder, err := proctest.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, holder.End(syscall.SIGKILL)) })
	require.Eventually(t, func() bool {
		_, err := os.Stat(made)
		return err == nil || holder.Ended()
	}, eventually, tick)
	require.False(t, holder.Ended(), "root, or a user namespace, may mount: %s", &out)
	return &mountSpace{holder}
}

// enter has a daemon run there, with the rights that it has here, and end with us.
func (s *mountSpace) enter(cmd *exec.Cmd) {
	ns := fmt.Sprintf("/proc/%d/ns/", s.holder.Pid())
	args := []string{"nsenter", "--mount=" + ns + "mnt"}
	if os.Geteuid() != 0 {
		args = append(args, "--user="+ns+"user", "--preserve-credentials")
	}
	path, err := exec.LookPath(args[0])
	cmd.Args, cmd.Path, cmd.Err = append(append(args, "setpriv", "--pdeathsig", "KILL"), cmd.Args...), path, errors.Join(cmd.Err, err)
}
