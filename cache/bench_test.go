package cache_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/renameio/v2"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/test/cachetest"
)

// BenchmarkSave saves in place, and in turn as most programs do: a temporary file, its sync, a rename, the sync of the directory. It reports the median of
// each, and their ratio.
func BenchmarkSave(b *testing.B) {
	c, err := cache.Open(b.TempDir())
	require.NoError(b, err)
	defer func() { require.NoError(b, c.Close()) }()
	require.NoError(b, c.Save(cachetest.Example(start)))
	root, err := os.OpenRoot(b.TempDir())
	require.NoError(b, err)
	defer func() { require.NoError(b, root.Close()) }()
	dir, err := root.Open(".")
	require.NoError(b, err)
	defer func() { require.NoError(b, dir.Close()) }()
	raw, err := os.ReadFile("../testdata/cache/good-cluster.json")
	require.NoError(b, err)

	var inPlace, renamed []time.Duration
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		require.NoError(b, c.Save(cachetest.Example(start+clock.Millis(i))))
		saved := time.Now()
		require.NoError(b, saveByRename(root, dir, raw))
		inPlace, renamed = append(inPlace, saved.Sub(began)), append(renamed, time.Since(saved))
	}
	median := func(took []time.Duration) float64 {
		slices.Sort(took)
		return float64(took[len(took)/2].Nanoseconds())
	}
	b.ReportMetric(0, "ns/op") // of both together
	b.ReportMetric(median(inPlace), "ns/in-place")
	b.ReportMetric(median(renamed), "ns/by-rename")
	b.ReportMetric(median(inPlace)/median(renamed), "ratio")
}

func saveByRename(root *os.Root, dir *os.File, raw []byte) error {
	p, err := renameio.NewPendingFile("worker.json", renameio.WithRoot(root), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer func() { _ = p.Cleanup() }()
	if _, err := p.Write(raw); err != nil {
		return err
	}
	if err := p.CloseAtomicallyReplace(); err != nil { // it syncs first
		return err
	}
	return dir.Sync()
}
