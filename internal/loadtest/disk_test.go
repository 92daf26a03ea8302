package loadtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/internal/loadtest/unique"
)

// smallDiskDir names the directory on which a run of the test binary mounts a file
// system too small for the journal of a load.
const smallDiskDir = "LEAFD_LOADTEST_TEST_DIR"

// TestDiskFull: the load ends at once, and there is no verdict on its IDs.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("mounts a file system")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), smallDiskDir+"="+t.TempDir())
	// Mounts of its own, gone with it: as root, or as the root of a user namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "ended early, unchecked\n", string(out))
}

// loadOnSmallDisk is the child's part.
func loadOnSmallDisk(dir string) (code int) {
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
	if err != nil {
		fmt.Println("mount:", err)
		return 1
	}
	f := &fake{}
	f.answer = f.growing
	server := httptest.NewServer(f)
	defer server.Close()
	r, err := loadtest.Run(context.Background(), loadtest.Config{
		URLs: []string{server.URL}, Mode: loadtest.Snowflake, Keys: []string{"k"}, Batch: 10_000, Clients: 4,
		Duration: time.Minute, Timeout: time.Minute, Check: &unique.Options{Dir: dir, Memory: unique.MinMemory},
	})
	if err != nil {
		fmt.Println("run:", err)
		return 1
	}
	err = r.CheckUnique(context.Background(), nil)
	verdict := r.Verdict()
	if !r.EndedEarly || !errors.Is(err, syscall.ENOSPC) || !errors.Is(verdict, loadtest.ErrUnchecked) || !errors.Is(verdict, syscall.ENOSPC) ||
		!strings.Contains(verdict.Error(), dir) || r.Checked || len(r.Unique) > 0 {
		fmt.Printf("early %t, check: %v, verdict: %v\n", r.EndedEarly, err, verdict)
		return 1
	}
	fmt.Println("ended early, unchecked")
	return 0
}
