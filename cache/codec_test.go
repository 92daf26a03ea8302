package cache_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cache"
	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

const samples = "../testdata/cache"

// goodBody is a standalone daemon's record, in leafd's spelling.
const goodBody = `{
    "node": "n",
    "worker_id": 1,
    "layout": "41+10+12",
    "epoch": 1288834974657,
    "timestamp": 1700000000000,
    "ceiling": 1700000006000,
    "owner": "o"
  }`

// refused sees that err is one that stops a start.
func refused(t *testing.T, err error) {
	t.Helper()
	require.NotEqual(t, errors.Is(err, worker.ErrDamaged), errors.Is(err, cache.ErrUnknownFormat), "%v", err)
	require.NotErrorIs(t, err, worker.ErrNoRecord)
}

// TestFormat pins the file: a change of it needs a new version.
func TestFormat(t *testing.T) {
	raw, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(samples, "good-first-save.json"))
	require.NoError(t, err)
	require.Equal(t, string(want), string(raw))
	for i := range 2 {
		part := raw[i*cache.SlotBytes : (i+1)*cache.SlotBytes]
		var slot struct {
			Leafd    int
			Sequence int
			Record   worker.Record
		}
		require.NoError(t, json.Unmarshal(part, &slot))
		require.Equal(t, 4, slot.Leafd)
		require.Equal(t, i, slot.Sequence)
		require.Equal(t, cachetest.Example(start), slot.Record)
		require.Equal(t, byte('\n'), part[len(part)-1])
	}
}

// TestEveryFieldIsKept fails when worker.Record gets a field that the file
// loses, or that Example leaves zero and so leaves untested.
func TestEveryFieldIsKept(t *testing.T) {
	want := cachetest.Example(start)
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") != "-" {
			require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
		}
	}
	raw, err := cache.Encode(want)
	require.NoError(t, err)
	got, err := cache.Decode(raw)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestChecksumIsNotEnough decodes records under a right checksum that a Save of
// this leafd does not write; the older slot is no way out then.
func TestChecksumIsNotEnough(t *testing.T) {
	got, err := cache.Decode(cache.File([]byte(goodBody)))
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
		"field of other case":  {swap(`"ceiling"`, `"Ceiling"`), cache.ErrUnknownFormat, "spells them otherwise"},
		"field given twice":    {swap(`"ceiling"`, `"ceiling": 1700000000001, "ceiling"`), cache.ErrUnknownFormat, "spells them otherwise"},
		"null field":           {swap(`1700000006000`, `null`), cache.ErrUnknownFormat, "spells them otherwise"},
		"field missing":        {swap(`"worker_id": 1,`, ``), cache.ErrUnknownFormat, "other fields"},
		"another spelling":     {strings.ReplaceAll(goodBody, "\n", " "), cache.ErrUnknownFormat, "spells them otherwise"},
		"number as text":       {swap(`1700000006000`, `"1700000006000"`), cache.ErrUnknownFormat, "ceiling"},
		"active, no cluster":   {swap(`"o"`, `"o", "instance": "i", "state": "active", "limit": 5, "acked_limit": 5`), worker.ErrDamaged, `cluster ""`},
		"unknown state":        {swap(`"o"`, `"o", "state": "settling"`), worker.ErrDamaged, `state "settling"`},
		"no object":            {`[]`, cache.ErrUnknownFormat, "array"},
		"null record":          {`null`, worker.ErrDamaged, "timestamp 0"},
		"something behind it":  {goodBody + `,"x":1`, worker.ErrDamaged, "altered"},
		"another object in it": {goodBody + "\n}\n{", worker.ErrDamaged, "altered"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := cache.Decode(cache.File([]byte(tc.body)))
			refused(t, err)
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, tc.says)
			require.Zero(t, r)
		})
	}
}

// TestRoom: what worker bounds has room, and the peers that have none are left out.
func TestRoom(t *testing.T) {
	r := cachetest.Example(start)
	r.Peers = slices.Repeat([]string{"255.255.255.255:65535"}, 1024)
	for sequence := range uint64(2) {
		slot, err := cache.EncodeSlot(math.MaxUint64-sequence, r)
		require.NoError(t, err)
		require.Len(t, slot, cache.SlotBytes)
	}
	kept, err := cache.Fit(r)
	require.NoError(t, err)
	require.Greater(t, len(kept.Peers), 100)
	require.Len(t, r.Peers, 1024)
	kept.Peers = append(kept.Peers, "255.255.255.255:65535")
	again, err := cache.Fit(kept)
	require.NoError(t, err)
	require.Less(t, len(again.Peers), len(kept.Peers), "not one more has room")

	r.Peers = nil
	for least, most := 0, cache.SlotBytes; ; {
		r.Node = strings.Repeat("x", (least+most)/2)
		if _, err := cache.Fit(r); err == nil {
			least = len(r.Node)
		} else {
			require.ErrorIs(t, err, cache.ErrBadRecord)
			most = len(r.Node)
		}
		if most-least == 1 {
			break
		}
	}
	r.Node = r.Node[1:]
	raw, err := cache.Encode(r)
	require.NoError(t, err)
	require.Len(t, raw, cache.FileBytes)
	got, err := cache.Decode(raw)
	require.NoError(t, err)
	require.Equal(t, r, got)
}

func TestSizeLimit(t *testing.T) {
	raw, err := cache.Encode(cachetest.Example(start))
	require.NoError(t, err)
	c := mustOpen(t, t.TempDir())
	// A huge file must not be read whole. This one takes no room on the disk.
	require.NoError(t, os.WriteFile(c.Path(), raw, 0o600))
	require.NoError(t, os.Truncate(c.Path(), 256<<20))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = c.Load()
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
	require.ErrorIs(t, err, worker.ErrDamaged)
	require.ErrorContains(t, err, "altered")
}

// TestSamples opens a data directory with each file of testdata/cache as its
// record. The README there says what each is.
func TestSamples(t *testing.T) {
	type sample struct {
		record worker.Record // what is loaded; zero: not compared
		want   error
		says   string
	}
	newest, older := cachetest.Example(start+3000), cachetest.Example(start)
	newest.MaybeStale, older.MaybeStale = true, true
	cases := map[string]sample{
		"good-cluster.json":               {record: cachetest.Example(start + 3000)},
		"good-first-save.json":            {record: cachetest.Example(start)},
		"good-standalone.json":            {},
		"torn-newer.json":                 {record: older},
		"torn-older.json":                 {record: newest},
		"torn-zeros.json":                 {record: older},
		"torn-ceiling-edited.json":        {record: older},
		"torn-checksum.json":              {record: older},
		"torn-swapped-record.json":        {record: older},
		"damaged-both-torn.json":          {want: worker.ErrDamaged, says: "altered"},
		"damaged-slots-swapped.json":      {want: worker.ErrDamaged, says: "altered"},
		"damaged-truncated.json":          {want: worker.ErrDamaged, says: "cut short"},
		"damaged-appended.json":           {want: worker.ErrDamaged, says: "altered"},
		"damaged-reformatted.json":        {want: worker.ErrDamaged, says: "altered"},
		"damaged-empty.json":              {want: worker.ErrDamaged, says: "empty"},
		"damaged-zeros.json":              {want: worker.ErrDamaged, says: "not leafd's"},
		"damaged-crlf.json":               {want: worker.ErrDamaged, says: "altered"},
		"damaged-bom.json":                {want: worker.ErrDamaged, says: "altered"},
		"damaged-merge-conflict.json":     {want: worker.ErrDamaged, says: "altered"},
		"damaged-negative-worker.json":    {want: worker.ErrDamaged, says: "worker_id -2"},
		"damaged-ceiling-nanosecond.json": {want: worker.ErrDamaged, says: "ceiling"},
		"damaged-no-limit.json":           {want: worker.ErrDamaged, says: "acked_limit 0"},
		"foreign-java-leaf.properties":    {want: worker.ErrDamaged, says: "not leafd's"},
		"foreign-java-leaf-znode.json":    {want: worker.ErrDamaged, says: "names no version"},
		"foreign-package.json":            {want: worker.ErrDamaged, says: "names no version"},
		"unknown-version-1.json":          {want: cache.ErrUnknownFormat, says: "version is 1, and this leafd knows 4; start the leafd that wrote it"},
		"unknown-version-2.json":          {want: cache.ErrUnknownFormat, says: "version is 2"},
		"unknown-version-3.json":          {want: cache.ErrUnknownFormat, says: "version is 3"},
		"unknown-version-5.json":          {want: cache.ErrUnknownFormat, says: "version is 5"},
		"unknown-version-3-beside.json":   {want: cache.ErrUnknownFormat, says: "version is 3"},
		"unknown-version-5-beside.json":   {want: cache.ErrUnknownFormat, says: "version is 5"},
		"unknown-field.json":              {want: cache.ErrUnknownFormat, says: `"shard"`},
		"unknown-prior-owners.json":       {want: cache.ErrUnknownFormat, says: `"lineage"`},
		"unknown-order.json":              {want: cache.ErrUnknownFormat, says: "spells them otherwise"},
	}
	for _, name := range names(t, samples) {
		if name != "README.md" && name != ".gitattributes" && name != "records.py" {
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
			got, err := c.Load()
			if tc.want == nil {
				require.NoError(t, err)
				if tc.record.Node != "" {
					require.Equal(t, tc.record, got)
				}
				require.NoError(t, c.Save(cachetest.Example(start+6000)))
				requireHolds(t, c, cachetest.Example(start+6000))
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
