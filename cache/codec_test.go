package cache_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/cache/cachetest"
	"github.com/leafd/leafd/worker"
)

const samples = "../testdata/cache"

// goodBody is the record of testdata/cache/good-standalone.json.
const goodBody = `{"node":"n","worker_id":1,"layout":"41+10+12","epoch":1288834974657,` +
	`"timestamp":1700000000000,"ceiling":1700000006000,"owner":"o"}`

// refused sees that err is one that stops a start.
func refused(t *testing.T, err error) {
	t.Helper()
	require.NotEqual(t, errors.Is(err, worker.ErrDamaged), errors.Is(err, cache.ErrNewer), "%v", err)
	require.NotErrorIs(t, err, worker.ErrNoRecord)
}

// TestFormat pins the file: a change of it needs a new version.
func TestFormat(t *testing.T) {
	raw, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(samples, "good-cluster.json"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(raw))
	require.True(t, json.Valid(raw))
}

// TestEveryFieldIsKept fails when worker.Record gets a field that the file
// loses, or that Example leaves zero and so leaves untested.
func TestEveryFieldIsKept(t *testing.T) {
	want := cachetest.Example(start)
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
	raw, err := cache.Encode(want)
	require.NoError(t, err)
	got, err := cache.Decode(raw)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestEveryChangeIsFoundOut(t *testing.T) {
	raw, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	t.Run("each byte changed to each other", func(t *testing.T) {
		for i := range raw {
			for v := range 256 {
				if byte(v) == raw[i] {
					continue
				}
				bad := bytes.Clone(raw)
				bad[i] = byte(v)
				_, err := cache.Decode(bad)
				if err == nil || errors.Is(err, worker.ErrDamaged) == errors.Is(err, cache.ErrNewer) {
					t.Fatalf("byte %d changed from %q to %q: %v", i, raw[i], byte(v), err)
				}
			}
		}
	})
	t.Run("cut short anywhere", func(t *testing.T) {
		for n := range raw {
			_, err := cache.Decode(raw[:n])
			require.ErrorIs(t, err, worker.ErrDamaged, "first %d bytes", n)
		}
	})
	t.Run("its start cut off anywhere", func(t *testing.T) {
		for n := 1; n <= len(raw); n++ {
			_, err := cache.Decode(raw[n:])
			require.ErrorIs(t, err, worker.ErrDamaged, "without the first %d bytes", n)
		}
	})
	t.Run("a byte added anywhere", func(t *testing.T) {
		for n := range len(raw) + 1 {
			for _, b := range []byte(" \n0a\"}\x00") {
				bad := append(append(bytes.Clone(raw[:n]), b), raw[n:]...)
				_, err := cache.Decode(bad)
				if err == nil || errors.Is(err, worker.ErrDamaged) == errors.Is(err, cache.ErrNewer) {
					t.Fatalf("%q added at %d: %v", b, n, err)
				}
			}
		}
	})
	t.Run("a byte left out anywhere", func(t *testing.T) {
		for n := range raw {
			_, err := cache.Decode(append(bytes.Clone(raw[:n]), raw[n+1:]...))
			require.ErrorIs(t, err, worker.ErrDamaged, "byte %d", n)
		}
	})
	t.Run("two records swapped", func(t *testing.T) {
		other, err := cache.Encode(cachetest.Example(start + 1))
		require.NoError(t, err)
		at := bytes.Index(raw, []byte(`"record"`))
		_, err = cache.Decode(append(bytes.Clone(raw[:at]), other[at:]...))
		require.ErrorIs(t, err, worker.ErrDamaged)
	})
	t.Run("two files in one", func(t *testing.T) {
		_, err := cache.Decode(append(bytes.Clone(raw), raw...))
		require.ErrorIs(t, err, worker.ErrDamaged)
	})
}

// TestChecksumIsNotEnough decodes records under a right checksum that a Save of
// this leafd does not write.
func TestChecksumIsNotEnough(t *testing.T) {
	got, err := cache.Decode(cache.Frame([]byte(goodBody)))
	require.NoError(t, err)
	require.Equal(t, "n", got.Node)

	swap := func(from, to string) string {
		require.Contains(t, goodBody, from)
		return strings.Replace(goodBody, from, to, 1)
	}
	cases := map[string]struct {
		body string
		want error
		says string
	}{
		"unknown field":        {swap(`{`, `{"shard":3,`), cache.ErrNewer, `"shard"`},
		"field of other case":  {swap(`"ceiling"`, `"Ceiling"`), cache.ErrNewer, `"Ceiling"`},
		"field given twice":    {swap(`{`, `{"ceiling":1700000000001,`), worker.ErrDamaged, `"ceiling"`},
		"null field":           {swap(`1700000006000`, `null`), worker.ErrDamaged, `"ceiling"`},
		"field missing":        {swap(`"worker_id":1,`, ``), worker.ErrDamaged, `"worker_id"`},
		"number as text":       {swap(`1700000006000`, `"1700000006000"`), worker.ErrDamaged, "ceiling"},
		"fraction":             {swap(`1700000006000`, `1700000006000.5`), worker.ErrDamaged, "ceiling"},
		"past int64":           {swap(`"worker_id":1`, `"worker_id":9223372036854775808`), worker.ErrDamaged, "worker_id"},
		"negative worker":      {swap(`"worker_id":1`, `"worker_id":-1`), worker.ErrDamaged, "worker_id -1"},
		"timestamp 0":          {swap(`1700000000000`, `0`), worker.ErrDamaged, "timestamp 0"},
		"timestamp negative":   {swap(`1700000000000`, `-5`), worker.ErrDamaged, "timestamp -5"},
		"ceiling negative":     {swap(`1700000006000`, `-5`), worker.ErrDamaged, "ceiling -5"},
		"ceiling absurd":       {swap(`1700000006000`, `9223372036854775807`), worker.ErrDamaged, "ceiling 9223372036854775807"},
		"no object":            {`[]`, worker.ErrDamaged, "no JSON object"},
		"empty object":         {`{}`, worker.ErrDamaged, "missing"},
		"null record":          {`null`, worker.ErrDamaged, "no JSON object"},
		"something behind it":  {goodBody + `,"x":1`, worker.ErrDamaged, "can't be read"},
		"another object in it": {goodBody + "\n}\n{", worker.ErrDamaged, "cut short, altered"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := cache.Decode(cache.Frame([]byte(tc.body)))
			refused(t, err)
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, tc.says)
			require.Zero(t, r)
		})
	}
}

func TestSizeLimit(t *testing.T) {
	r := cachetest.Example(start)
	r.Peers = []string{strings.Repeat("x", cache.MaxRecordBytes)}
	_, err := cache.Encode(r)
	require.ErrorIs(t, err, cache.ErrBadRecord)

	raw, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	r.Peers = []string{""}
	empty, err := cache.Encode(r)
	require.NoError(t, err)
	r.Peers = []string{strings.Repeat("x", cache.MaxRecordBytes-len(empty))}
	largest, err := cache.Encode(r)
	require.NoError(t, err)
	require.Len(t, largest, cache.MaxRecordBytes)

	dir := t.TempDir()
	c := mustOpen(t, dir)
	require.NoError(t, c.Save(r))
	requireHolds(t, c, r)

	// A huge file must not be read whole. This one takes no room on the disk.
	require.NoError(t, os.WriteFile(c.Path(), raw, 0o600))
	require.NoError(t, os.Truncate(c.Path(), 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = c.Load()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	require.ErrorIs(t, err, worker.ErrDamaged)
	require.ErrorContains(t, err, "larger than")
}

// TestSamples opens a data directory with each file of testdata/cache as its
// record. The README there says what each is.
func TestSamples(t *testing.T) {
	type sample struct {
		want error
		says string
	}
	cases := map[string]sample{
		"good-cluster.json":               {},
		"good-cluster-first-release.json": {},
		"good-standalone.json":            {},
		"damaged-empty.json":              {worker.ErrDamaged, "empty"},
		"damaged-truncated.json":          {worker.ErrDamaged, "cut short"},
		"damaged-appended.json":           {worker.ErrDamaged, "altered"},
		"damaged-zeros.json":              {worker.ErrDamaged, "not leafd's"},
		"damaged-ceiling-edited.json":     {worker.ErrDamaged, "checksum"},
		"damaged-checksum.json":           {worker.ErrDamaged, "checksum"},
		"damaged-swapped-record.json":     {worker.ErrDamaged, "checksum"},
		"damaged-reformatted.json":        {worker.ErrDamaged, "first lines"},
		"damaged-crlf.json":               {worker.ErrDamaged, "first lines"},
		"damaged-bom.json":                {worker.ErrDamaged, "cut short, altered"},
		"damaged-merge-conflict.json":     {worker.ErrDamaged, "cut short, altered"},
		"damaged-negative-worker.json":    {worker.ErrDamaged, "worker_id -1"},
		"damaged-ceiling-nanosecond.json": {worker.ErrDamaged, "ceiling"},
		"damaged-version-0.json":          {worker.ErrDamaged, "first lines"},
		"foreign-java-leaf.properties":    {worker.ErrDamaged, "not leafd's"},
		"foreign-java-leaf-znode.json":    {worker.ErrDamaged, "names no version"},
		"foreign-package.json":            {worker.ErrDamaged, "names no version"},
		"newer-version-2.json":            {cache.ErrNewer, "version is 2"},
		"newer-field.json":                {cache.ErrNewer, `"shard"`},
	}
	for _, name := range names(t, samples) {
		if name != "README.md" && name != ".gitattributes" {
			require.Contains(t, cases, name, "sample without a case")
		}
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(samples, name))
			require.NoError(t, err)
			dir := t.TempDir()
			path := filepath.Join(dir, "worker.json")
			require.NoError(t, os.WriteFile(path, raw, 0o600))
			c := mustOpen(t, dir)
			_, err = c.Load()
			if tc.want == nil {
				require.NoError(t, err)
				return
			}
			refused(t, err)
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, tc.says)
			require.ErrorIs(t, c.Save(cachetest.Example(start)), tc.want)
			require.NoError(t, c.Close())
			kept, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, raw, kept, "left as it was found")
		})
	}
}
