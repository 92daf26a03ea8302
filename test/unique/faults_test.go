package unique_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leafd/leafd/test/unique"
)

// faulty is a temporary file that fails at one of its calls.
type faulty struct {
	unique.File
	f *fault
}

// fault strikes at the nth call of its kind, counted over all files.
type fault struct {
	nth          int64
	writes       atomic.Int64
	reads        atomic.Int64
	onWrite      func(f unique.File, p []byte) (int, error)
	onRead       func(f unique.File, p []byte, off int64) (int, error)
	onClose      error
	closes       atomic.Int64
	struck       atomic.Bool
	alsoAllAfter bool
}

func (f *fault) due(calls *atomic.Int64) bool {
	n := calls.Add(1)
	if n == f.nth || f.alsoAllAfter && n > f.nth {
		f.struck.Store(true)
		return true
	}
	return false
}

func (w *faulty) Write(p []byte) (int, error) {
	if w.f.onWrite != nil && w.f.due(&w.f.writes) {
		return w.f.onWrite(w.File, p)
	}
	return w.File.Write(p)
}

func (w *faulty) ReadAt(p []byte, off int64) (int, error) {
	if w.f.onRead != nil && w.f.due(&w.f.reads) {
		return w.f.onRead(w.File, p, off)
	}
	return w.File.ReadAt(p, off)
}

func (w *faulty) Close() error {
	if w.f.onClose != nil && w.f.due(&w.f.closes) {
		return errors.Join(w.File.Close(), w.f.onClose)
	}
	return w.File.Close()
}

// altered reads p and then changes it.
func altered(change func(p []byte)) func(unique.File, []byte, int64) (int, error) {
	return func(f unique.File, p []byte, off int64) (int, error) {
		n, err := f.ReadAt(p, off)
		change(p[:n])
		return n, err
	}
}

// TestFaultsAreNoVerdict lets each call fail once, in each way: what comes out
// is an error, never a report.
func TestFaultsAreNoVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		fault func() *fault
		is    error
		calls int // at least
	}{
		{"disk full", func() *fault {
			return &fault{onWrite: func(unique.File, []byte) (int, error) { return 0, syscall.ENOSPC }}
		}, syscall.ENOSPC, chunks},
		{"disk full half-way, and from then on", func() *fault {
			return &fault{alsoAllAfter: true, onWrite: func(f unique.File, p []byte) (int, error) {
				n, err := f.Write(p[:len(p)/2])
				return n, errors.Join(err, syscall.ENOSPC)
			}}
		}, syscall.ENOSPC, chunks},
		{"short write without an error", func() *fault {
			return &fault{onWrite: func(f unique.File, p []byte) (int, error) { return f.Write(p[:len(p)-1]) }}
		}, unique.ErrStorage, chunks},
		{"write that was told whole and wasn't", func() *fault {
			return &fault{onWrite: func(f unique.File, p []byte) (int, error) {
				_, err := f.Write(p[:len(p)-1])
				return len(p), err
			}}
		}, unique.ErrDamaged, chunks},
		{"write that was lost", func() *fault {
			return &fault{onWrite: func(_ unique.File, p []byte) (int, error) { return len(p), nil }}
		}, unique.ErrDamaged, chunks},
		{"read error", func() *fault {
			return &fault{onRead: func(unique.File, []byte, int64) (int, error) { return 0, syscall.EIO }}
		}, syscall.EIO, 5 * chunks},
		{"first bit altered", func() *fault { return &fault{onRead: altered(func(p []byte) { p[0] ^= 1 })} }, unique.ErrDamaged, 5 * chunks},
		{"last bit altered", func() *fault { return &fault{onRead: altered(func(p []byte) { p[len(p)-1] ^= 0x40 })} }, unique.ErrDamaged, 5 * chunks},
		{"zeros", func() *fault { return &fault{onRead: altered(func(p []byte) { clear(p) })} }, unique.ErrDamaged, 5 * chunks},
		{"read from elsewhere", func() *fault {
			return &fault{onRead: func(f unique.File, p []byte, off int64) (int, error) {
				n, _ := f.ReadAt(p, off+1)
				return max(n, len(p)-1), nil
			}}
		}, unique.ErrDamaged, 5 * chunks},
		{"close", func() *fault { return &fault{onClose: syscall.EIO} }, syscall.EIO, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			struck := 0
			for nth := int64(1); ; nth++ {
				f := tc.fault()
				f.nth = nth
				report, err := checkWith(t, f)
				if !f.struck.Load() {
					require.NoError(t, err)
					require.Equal(t, int64(1), report.Surplus)
					break
				}
				struck++
				require.ErrorIs(t, err, tc.is, "call %d", nth)
				require.True(t, errors.Is(err, unique.ErrStorage) || errors.Is(err, unique.ErrDamaged), err)
				require.Equal(t, unique.Report{}, report)
			}
			require.GreaterOrEqual(t, struck, tc.calls)
		})
	}
}

// chunks is how many checkWith writes.
const chunks = 4

// checkWith journals some IDs with one repeated, in a file with f, and returns the
// first error of New, Add, Check and Close. The IDs are read many times, three of
// them sorted at a time.
func checkWith(t *testing.T, f *fault) (unique.Report, error) {
	t.Helper()
	o := unique.WithFile(unique.Small(t.TempDir(), 3), func(file unique.File) unique.File { return &faulty{file, f} })
	j, err := unique.New(o)
	if err != nil {
		return unique.Report{}, err
	}
	lanes := []*unique.Lane{j.Lane(), j.Lane(), j.Lane(), j.Lane()}
	r := rand.New(rand.NewPCG(1, 1))
	for request := range 20 {
		ids := []int64{int64(r.Uint64()), int64(r.Uint64())}
		if request == 17 {
			ids[0] = 5
		}
		if request == 4 {
			ids[1] = 5
		}
		if err = lanes[request%chunks].Add(unique.Place{Request: int64(request)}, ids); err != nil {
			break
		}
	}
	var report unique.Report
	if err == nil {
		report, err = j.Check(t.Context(), nil)
	}
	if closed := j.Close(); closed != nil {
		return unique.Report{}, errors.Join(err, closed)
	}
	return report, err
}

// TestBrokenJournalSaysSoAtOnce: a load isn't driven on for hours when what it
// is for has failed already.
func TestBrokenJournalSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	f := &fault{nth: 1, onWrite: func(unique.File, []byte) (int, error) { return 0, syscall.ENOSPC }}
	o := unique.WithFile(unique.Options{Dir: t.TempDir(), Memory: unique.MinMemory}, func(file unique.File) unique.File { return &faulty{file, f} })
	j := open(t, o)
	lane := j.Lane()
	ids := make([]int64, 10_000)
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = lane.Add(unique.Place{}, ids)
	}
	require.ErrorIs(t, err, unique.ErrStorage)
	require.ErrorIs(t, j.Err(), syscall.ENOSPC)
	_, err = j.Check(t.Context(), nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

// fullDiskDir names the directory on which a run of the test binary mounts a small
// file system and fills it.
const fullDiskDir = "LEAFD_UNIQUE_TEST_DIR"

// TestRealFullDisk runs a check on a tmpfs that is full while IDs are added, on one
// that is too small for what is written in the end, and on one that holds the
// journal: more isn't needed.
func TestRealFullDisk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("mounts a file system")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), fullDiskDir+"="+t.TempDir())
	// Mounts of its own, gone with it: as root, or as the root of a user namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "full in Add\nfull in Check\nenough\n", string(out))
}

// fillDisk is the child's part.
func fillDisk(dir string) (code int) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Println("mount /:", err)
		return 1
	}
	for i, disk := range []struct {
		size     string
		requests int
	}{{"256k", 1 << 20}, {"4k", 5}, {"3m", 240}} {
		sub := filepath.Join(dir, disk.size)
		if err := errors.Join(os.Mkdir(sub, 0o700), unix.Mount("tmpfs", sub, "tmpfs", 0, "size="+disk.size)); err != nil {
			fmt.Println("mount:", err)
			return 1
		}
		added, err := fillWith(sub, disk.requests)
		switch {
		case errors.Is(err, syscall.ENOSPC) && errors.Is(err, unique.ErrStorage):
			fmt.Println("full in", map[bool]string{true: "Check", false: "Add"}[added])
		case err == nil:
			fmt.Println("enough")
		default:
			fmt.Println(i, err)
			return 1
		}
	}
	return 0
}

// fillWith journals and checks the IDs of some requests, 10 kB each; added is false
// when the journal was broken before Check. Add is ahead of what is written by some
// chunks, so that a full disk ends it for certain only where requests have no end.
func fillWith(dir string, requests int) (added bool, err error) {
	j, err := unique.New(unique.Small(dir, 50_000))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	lane := j.Lane()
	r := rand.New(rand.NewPCG(1, 1))
	ids := make([]int64, 1000)
	for request := range requests {
		for i := range ids {
			ids[i] = int64(r.Uint64())
		}
		if err := lane.Add(unique.Place{Request: int64(request)}, ids); err != nil {
			return false, err
		}
	}
	report, err := j.Check(context.Background(), nil)
	if err == nil && (report.IDs != int64(requests)*1000 || report.Surplus != 0) {
		err = fmt.Errorf("report %+v", report)
	}
	return true, err
}
