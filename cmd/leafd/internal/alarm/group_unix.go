//go:build unix

package alarm

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// killGroup gives cmd a process group of its own, all of which is killed when
// its context ends: a script's children would live on.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
