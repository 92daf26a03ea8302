package cache_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

// A kill leaves what the kernel has buffered, so no crash of a process shows what a
// power cut would leave: these tests stand between package cache and the disk.

// TestSyncIsARealOne: the kernel answers EINVAL to fdatasync(2) of a pipe, and nothing
// but the kernel would.
func TestSyncIsARealOne(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, errors.Join(r.Close(), w.Close())) }()
	require.ErrorIs(t, cache.SyncData(w), syscall.EINVAL)
}

// TestWhatIsSynced pins what a Save waits for.
func TestWhatIsSynced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	lock := filepath.Join(dir, "leafd.lock")
	var synced []string
	note := func(what string) func(*os.File) error {
		return func(f *os.File) error {
			st, err := f.Stat()
			if err != nil {
				return err
			}
			is := what
			for _, path := range []string{dir, filepath.Dir(dir), filepath.Join(dir, "worker.json"), lock} {
				if other, err := os.Stat(path); err == nil && os.SameFile(st, other) {
					is = path
				}
			}
			synced = append(synced, is)
			return nil
		}
	}
	c, err := cache.OpenOn(dir, cache.Disk{Sync: note("temporary file"), SyncDir: note("directory")})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Equal(t, []string{filepath.Dir(dir), lock, "temporary file", dir}, synced, "the new directory's entry, then the probe")
	synced = nil
	require.NoError(t, c.Save(cachetest.Example(start)))
	require.Equal(t, []string{lock, "temporary file", dir, dir}, synced, "our name, the record, before and after it is renamed, then the marker")
	synced = nil
	require.NoError(t, c.Save(cachetest.Example(start+1)))
	require.Equal(t, []string{c.Path()}, synced)
}

// TestEachOpenMakesAFile: a write that an earlier holder began comes to nothing,
// and a slot that was damaged stays so (whole-slots).
func TestEachOpenMakesAFile(t *testing.T) {
	dir, c := saved(t)
	require.NoError(t, c.Close())
	before, err := os.ReadFile(c.Path())
	require.NoError(t, err)
	before[cache.SlotBytes+100] ^= 1
	require.NoError(t, os.WriteFile(c.Path(), before, 0o600))
	old, err := os.OpenFile(c.Path(), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, old.Close()) }()

	c = mustOpen(t, dir)
	after, err := os.ReadFile(c.Path())
	require.NoError(t, err)
	require.Equal(t, before, after)
	_, err = old.WriteAt(make([]byte, cache.FileBytes), 0)
	require.NoError(t, err)
	want := cachetest.Example(start)
	want.MaybeStale = true
	requireHolds(t, c, want)
	require.NoError(t, c.Save(cachetest.Example(start+1)))
	requireHolds(t, c, cachetest.Example(start+1))
}

// TestFileTakenAway: after any loss of the file, the next Save makes it whole again.
func TestFileTakenAway(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"moved":    func(path string) error { return os.Rename(path, path+".old") },
		"cut":      func(path string) error { return os.Truncate(path, 100) },
		"longer":   func(path string) error { return os.Truncate(path, cache.FileBytes+1) },
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("x"), 0o600)) },
		"linked": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Symlink(path+".old", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, c := saved(t)
			require.NoError(t, take(c.Path()))
			require.NoError(t, c.Save(cachetest.Example(start+1)))
			requireHolds(t, c, cachetest.Example(start+1))
			require.NoError(t, c.Save(cachetest.Example(start+2)))
			require.NoError(t, c.Close())
			requireHolds(t, mustOpen(t, dir), cachetest.Example(start+2))
		})
	}
}

// sectorBytes is what a disk writes at once, or not at all; many write more.
const sectorBytes = 512

// wide returns a record of many sectors, each of them another one for another i.
func wide(i int) worker.Record {
	r := cachetest.Example(start + clock.Millis(i))
	for p := range 120 {
		r.Peers = append(r.Peers, fmt.Sprintf("10.%d.%d.%d:8080", i>>8&255, i&255, p))
	}
	return r
}

// twoSlots returns a file with wide(n-1) and wide(n).
func twoSlots(t *testing.T, n int) []byte {
	t.Helper()
	raw := make([]byte, cache.FileBytes)
	for i := n - 1; i <= n; i++ {
		slot, err := cache.EncodeSlot(uint64(i), wide(i))
		require.NoError(t, err)
		copy(raw[i%2*cache.SlotBytes:], slot)
	}
	return raw
}

// TestTornSave (whole-slots): of the slot that a Save was writing, any part is in
// place, from the front or in any order of sectors; the record before is there, and the
// reader is told where it can't know that there was none after it.
func TestTornSave(t *testing.T) {
	for n := 4; n <= 5; n++ { // into the first slot and into the second
		before, after := twoSlots(t, n), twoSlots(t, n+1)
		from := (n + 1) % 2 * cache.SlotBytes
		check := func(mixed []byte) {
			t.Helper()
			want := wide(n)
			switch string(mixed) {
			case string(before):
			case string(after):
				want = wide(n + 1)
			default:
				want.MaybeStale = true
			}
			got, err := cache.Decode(mixed)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		for length := 0; length <= cache.SlotBytes; length += 3 + length/1000*7 {
			check(slices.Concat(before[:from], after[from:from+length], before[from+length:]))
		}
		random := rand.New(rand.NewPCG(1, uint64(n)))
		for range 150 {
			check(mix(random, before, after))
		}
	}
}

// mix returns old with any of the sectors that differ from now.
func mix(random *rand.Rand, old, now []byte) []byte {
	mixed, share := slices.Clone(old), random.Float64()
	for at := 0; at < len(mixed); at += sectorBytes {
		if random.Float64() < share {
			copy(mixed[at:at+sectorBytes], now[at:])
		}
	}
	return mixed
}

// TestDamagedSlots (whole-slots): a sector of a slot goes bad at any time; with one bad slot the
// reader is told, with two there is no record.
func TestDamagedSlots(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 0))
	for n := 4; n <= 5; n++ {
		raw := twoSlots(t, n)
		for range 200 {
			bad := slices.Clone(raw)
			hit := map[int]bool{}
			for range 1 + random.IntN(2) {
				at := random.IntN(len(bad) / sectorBytes)
				hit[at*sectorBytes/cache.SlotBytes] = true
				clear(bad[at*sectorBytes : (at+1)*sectorBytes])
			}
			got, err := cache.Decode(bad)
			if len(hit) == 2 {
				require.ErrorIs(t, err, worker.ErrDamaged)
				continue
			}
			require.NoError(t, err)
			want := wide(n)
			if hit[n%2] {
				want = wide(n - 1)
			}
			want.MaybeStale = true
			require.Equal(t, want, got)
		}
	}
}

var errPower = errors.New("the power is cut")

// faultyDisk stands under one life of a Cache. What was not synced is lost in a power cut, or
// lands in part and in any order; so does the data of a failed sync, which the kernel
// never writes again, although each reader is shown it.
type faultyDisk struct {
	random  *rand.Rand
	path    string
	durable []byte // nil until there is a record file
	dirty   bool   // the slot at offset was written and not synced
	offset  int64
	fault   string // of the Save under way
}

func (d *faultyDisk) write(f *os.File, b []byte, offset int64) error {
	if d.durable != nil {
		if offset != d.offset {
			d.land()
		}
		d.dirty, d.offset = true, offset
	}
	switch d.fault {
	case "write fails":
		_, _ = f.WriteAt(b[:d.random.IntN(len(b))], offset)
		return syscall.EIO
	case "power cut in the write":
		_, _ = f.WriteAt(b[:d.random.IntN(len(b))], offset)
		return errPower
	}
	_, err := f.WriteAt(b, offset)
	return err
}

func (d *faultyDisk) sync(*os.File) error {
	switch d.fault {
	case "sync fails":
		d.land()
		return syscall.EIO
	case "power cut before the sync":
		return errPower
	}
	if d.dirty {
		copy(d.durable[d.offset:d.offset+cache.SlotBytes], d.shown()[d.offset:])
		d.dirty = false
	}
	if d.fault == "power cut after the sync" {
		return errPower
	}
	return nil
}

// shown is what the kernel shows of the file.
func (d *faultyDisk) shown() []byte {
	raw, err := os.ReadFile(d.path)
	if err != nil || len(raw) != cache.FileBytes {
		panic(fmt.Sprint(len(raw), err))
	}
	return raw
}

// land has any of the sectors of what was not synced reach the disk.
func (d *faultyDisk) land() {
	if d.dirty {
		slot := d.durable[d.offset : d.offset+cache.SlotBytes]
		copy(slot, mix(d.random, slot, d.shown()[d.offset:d.offset+cache.SlotBytes]))
		d.dirty = false
	}
}

// TestPowerCuts (whole-slots): after any failures, and a power cut at any moment, the next life
// has the last record that a Save returned nil for, or one that it was told of after that.
func TestPowerCuts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	d := &faultyDisk{random: rand.New(rand.NewPCG(seed, 0))}
	faults := []string{"", "", "write fails", "sync fails", "power cut in the write", "power cut before the sync", "power cut after the sync"}
	dir := t.TempDir()
	next, acked, seen := 0, 0, map[string]int{}
	for lives := range 150 {
		d.fault, d.durable = "", nil
		c, err := cache.OpenOn(dir, cache.Disk{Write: d.write, Sync: d.sync})
		require.NoError(t, err)
		d.path = c.Path()
		if lives == 0 {
			require.NoError(t, c.Save(wide(0)))
		}
		got, err := c.Load()
		require.NoError(t, err)
		is := int(got.Timestamp - start)
		if got.MaybeStale {
			seen["torn"]++
			require.Equal(t, acked, is)
			got.MaybeStale = false
		}
		require.Equal(t, wide(is), got)
		require.GreaterOrEqual(t, is, acked, "an acknowledged record is gone")
		acked, d.durable = is, d.shown()
		for !errors.Is(err, errPower) {
			next++
			d.fault = faults[d.random.IntN(len(faults))]
			seen[d.fault]++
			if err = c.Save(wide(next)); err == nil {
				acked = next
			}
		}
		d.land()
		require.NoError(t, c.Close())
		require.NoError(t, os.WriteFile(d.path, d.durable, 0o600))
	}
	require.Len(t, seen, 7, "all of them happened: %v", seen)
}
