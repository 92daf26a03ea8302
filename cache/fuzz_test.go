package cache_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
)

// FuzzDecode decodes arbitrary files: never a panic, never an unclear error,
// and what is accepted can be saved again and comes back the same.
func FuzzDecode(f *testing.F) {
	entries, err := os.ReadDir(samples)
	require.NoError(f, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(samples, e.Name()))
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(checkDecode)
}

// FuzzDecodeRecord is FuzzDecode behind the checksum, which a fuzzer can't guess.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(goodBody))
	f.Add([]byte(`{"node":"n","node":"m"}`))
	f.Add([]byte(`{"peers":["a",null]}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, body []byte) { checkDecode(t, cache.File(body)) })
}

func checkDecode(t *testing.T, raw []byte) {
	r, err := cache.Decode(raw)
	if err != nil {
		require.Zero(t, r)
		refused(t, err)
		return
	}
	r.MaybeStale = false
	again, err := cache.Encode(r)
	require.NoError(t, err)
	back, err := cache.Decode(again)
	require.NoError(t, err)
	require.Equal(t, r, back)
}
