package zkreg

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
)

const testOwner = "0b9e1c5e-6f0e-4a53-9a55-6f8f3f1d2c7a"

func payloads(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../testdata/zkreg/" + pattern)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	found := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		found[strings.TrimSuffix(filepath.Base(file), ".json")] = data
	}
	return found
}

func TestGoodPayloads(t *testing.T) {
	active := worker.Entry{
		IP: "10.0.0.5", Port: "8080", Timestamp: 1700000000000, Node: "a", Ceiling: 1700000004500, Limit: 1700604800000,
		Instance: "6f1f2f4a-54c1-4d0c-8a52-6b0b5f4f7e11", Owner: testOwner, Life: 12, State: worker.StateActive,
	}
	with := func(change func(*worker.Entry)) worker.Entry {
		d := active
		change(&d)
		return d
	}
	java := worker.Entry{IP: "10.0.0.5", Port: "8080", Timestamp: 1700000000000, State: StateJava}
	want := map[string]worker.Entry{
		"good-java":           java,
		"good-java-unordered": java,
		"good-active":         active,
		"good-newer-field":    active,
		"good-clean-stop":     with(func(d *worker.Entry) { d.Ceiling = 1699999999001 }),
		"good-released":       with(func(d *worker.Entry) { d.State = worker.StateReleased }),
		"good-claiming":       with(func(d *worker.Entry) { d.State, d.Limit = worker.StateClaiming, 0 }),
		"good-piece":          with(func(d *worker.Entry) { d.Floor = 1699999000000 }),
		"good-ipv6":           with(func(d *worker.Entry) { d.IP = "2001:db8::1" }),
	}
	files := payloads(t, "good-*.json")
	require.Len(t, files, len(want))
	for name, data := range files {
		got, err := decodeEntry("/leaf/x", data)
		require.NoError(t, err, name)
		require.Equal(t, want[name], got, name)
		if !strings.Contains(name, "java") && !strings.Contains(name, "newer") {
			require.Equal(t, string(data), string(encode(got)), "byte for byte")
		}
	}
	require.Equal(t, "[2001:db8::1]:8080", want["good-ipv6"].Address())
	require.Empty(t, worker.Entry{}.Address())
}

func TestDamagedPayloads(t *testing.T) {
	for name, data := range payloads(t, "damaged-*.json") {
		got, err := decodeEntry("/leaf/leaf_forever/a-0000000001", data)
		require.ErrorIs(t, err, worker.ErrDamaged, name)
		require.ErrorContains(t, err, "/leaf/leaf_forever/a-0000000001", name)
		require.Zero(t, got, name)
	}
}

// What leafd writes is read by a reader of the Java Leaf's three fields and types.
func TestReadableByThreeFields(t *testing.T) {
	r := &Registry{tree: tree{cfg: Config{Address: "[2001:db8::1]:8080"}}}
	d := r.dataOf(worker.Record{Current: worker.Life{Owner: testOwner, Number: 2}, Instance: "i", Timestamp: 5, Ceiling: 7}, worker.StateActive)
	require.Regexp(t, `^\{"ip":"2001:db8::1","port":"8080","timestamp":5,`, string(encode(d)))
}

func TestRootPayload(t *testing.T) {
	usual, err := newPaths("", "")
	require.NoError(t, err)
	root := worker.Root{
		Cluster: "c", Epoch: snowflake.DefaultEpoch, Layout: "41+10+12", Forever: "/leaf/leaf_forever", Parent: 7,
		LongestLeaseMS: 604800000, LongestSessionMS: 6000, LongestLendMS: 600000, Losses: 2, LostAt: 1690000000000, Floor: 1700000000000,
	}
	text := `{"cluster":"c","epoch":1288834974657,"layout":"41+10+12","forever":"/leaf/leaf_forever","parent_czxid":7,"longest_lease":604800000,"longest_session":6000,"longest_lend":600000,"losses":2,"lost_at":1690000000000,"floor":1700000000000}`
	require.Equal(t, text, string(encode(root)))
	got, err := decodeRoot("/leaf", []byte(text))
	require.NoError(t, err)
	require.JSONEq(t, text, string(encode(got)))
	cfg := Config{Layout: snowflake.DefaultLayout(), Lease: worker.DefaultLease}
	require.NoError(t, cfg.check(usual, got, "c"))
	require.ErrorContains(t, cfg.check(usual, got, "d"), "of another cluster, c")
	cfg.Lease++
	require.ErrorContains(t, cfg.check(usual, got, ""), "--longest-lease")
	cfg.Lease--
	require.NoError(t, cfg.check(usual, got, ""))
	elsewhere, err := newPaths("", "/snowflake/shop/forever")
	require.NoError(t, err)
	err = cfg.check(elsewhere, got, "")
	require.ErrorIs(t, err, worker.ErrForeign)
	require.ErrorContains(t, err, "/leaf/leaf_forever")
	require.ErrorContains(t, err, "/snowflake/shop/forever")

	// One without a field of this release is none that it has made.
	for _, field := range []string{"cluster", "epoch", "layout", "forever", "parent_czxid", "longest_lease", "longest_session", "longest_lend", "losses", "lost_at", "floor"} {
		var all map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &all))
		delete(all, field)
		_, err = decodeRoot("/leaf", encode(all))
		require.ErrorIs(t, err, worker.ErrDamaged)
		require.ErrorContains(t, err, "znode /leaf holds")
		require.ErrorContains(t, err, field)
	}
	require.ErrorContains(t, err, "once none of them is left, take another --zk-root")

	for _, data := range []string{
		"", "null", "x", "{}", "[]", `{"cluster":"c"}`, `{"layout":"41+10+12"}`, `{"cluster":1,"layout":"41+10+12"}`, "10.0.0.5",
		strings.Replace(text, `"forever":"/leaf/leaf_forever"`, `"forever":"leaf"`, 1),
		strings.Replace(text, `"forever":"/leaf/leaf_forever"`, `"forever":""`, 1),
		strings.Replace(text, `"parent_czxid":7`, `"parent_czxid":-7`, 1),
		strings.Replace(text, "604800000", "0", 1),
		strings.Replace(text, `"longest_session":6000`, `"longest_session":-1`, 1),
		strings.Replace(text, `"longest_session":6000`, `"longest_session":3600001`, 1),
		strings.Replace(text, "1690000000000", "-1", 1),
		strings.Replace(text, "604800000", "999999999999999", 1),
		strings.Replace(text, `"losses":2`, `"losses":-1`, 1),
		strings.Replace(text, "1700000000000", "-1", 1),
		strings.Replace(text, "1700000000000", "999999999999999", 1),
	} {
		_, err := decodeRoot("/leaf", []byte(data))
		require.ErrorIs(t, err, worker.ErrDamaged, data)
		require.ErrorContains(t, err, "/leaf")
	}
}

func FuzzPayload(f *testing.F) {
	for _, pattern := range []string{"good-*.json", "damaged-*.json"} {
		for _, data := range payloads(f, pattern) {
			f.Add(data)
		}
	}
	f.Add(encode(worker.Root{Cluster: "c", Layout: "41+10+12"}))
	f.Add([]byte(`{"timestamp":1,"timestamp":2}`))
	f.Add([]byte(`{"timestamp":1,"TIMESTAMP":null}`))
	f.Add([]byte(`{"timestamp":1,"ceiling":null,"state":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if root, err := decodeRoot("/x", data); err != nil {
			require.ErrorIs(t, err, worker.ErrDamaged)
		} else {
			require.NotEmpty(t, root.Cluster)
		}
		require.NotEmpty(t, ownerOf(data))
		d, err := decodeEntry("/x", data)
		if err != nil {
			require.ErrorIs(t, err, worker.ErrDamaged)
			require.Zero(t, d)
			return
		}
		require.GreaterOrEqual(t, d.Timestamp, clock.Millis(0))
		require.LessOrEqual(t, d.Timestamp, latest)
		require.GreaterOrEqual(t, d.Ceiling, clock.Millis(0))
		require.LessOrEqual(t, d.Ceiling, latest)
		require.Contains(t, []worker.EntryState{worker.StateActive, worker.StateReleased, worker.StateClaiming, StateJava}, d.State)
		if address := d.Address(); address != "" {
			require.True(t, strings.HasSuffix(address, ":"+d.Port))
		}
		if d.State == StateJava { // which is never written
			require.Equal(t, worker.Entry{IP: d.IP, Port: d.Port, Timestamp: d.Timestamp, State: StateJava}, d)
			return
		}
		again, err := decodeEntry("/x", encode(d)) // what was read is written and read the same
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}
