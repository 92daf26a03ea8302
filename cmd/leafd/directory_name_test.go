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

	"github.com/leafd/leafd/cmd/leafd/internal/cli"
	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
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

// Without ZooKeeper a daemon starts from its data directory where that can be told from a copy:
// by the time of birth of a file, or by the machine ID beside the inode's number. Where the
// system tells neither, it waits for ZooKeeper, as a copy on another volume has to.
func TestDirectoryThatHasNoNameOfItsOwn(t *testing.T) {
	t.Parallel()
	const id = "0123456789abcdef0123456789abcdef\n"
	for _, tc := range []struct {
		name, kind, machineID string
		starts                bool
	}{
		{"time of birth and machine ID", "tmpfs", id, true},
		{"time of birth", "tmpfs", "", true},
		{"machine ID", "ramfs", id, true},
		{"neither", "ramfs", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := onShared(t)
			proxy := zookeepertest.NewProxy(t, c.servers[0])
			m := c.behind(proxy, append(frequent(), "--modes", "snowflake", "--startup-timeout", "5s")...)
			m.prepare = newMountSpace(t, tc.kind, m.dataDir(), tc.machineID).enter
			l := m.ready()
			require.Zero(t, l.info().ID)
			all := l.some()
			require.Equal(t, cli.ExitOK, l.stop())
			proxy.Down(t)
			if tc.starts {
				l = m.ready()
				requireUnconfirmed(t, l, 0)
				all = append(all, l.some()...)
				require.Equal(t, cli.ExitOK, l.stop())
			} else {
				l = m.start()
				l.exits(cli.ExitFailure)
				require.NotContains(t, l.Log(), "issuing snowflake IDs")
				require.True(t, l.hasLogged("machine ID", "birth"), l.Log())
			}
			proxy.Up(t)
			l = m.ready()
			require.Zero(t, l.info().ID, "it keeps its worker ID")
			requireDistinct(t, append(all, l.some()...))
			require.Equal(t, cli.ExitOK, l.stop())
		})
	}
}
