package zkreg

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
)

func TestPaths(t *testing.T) {
	p, err := newPaths("", "")
	require.NoError(t, err)
	require.Equal(t, paths{root: "/leaf", forever: "/leaf/leaf_forever", released: "/leaf/leaf_released", temporary: "/leaf/leaf_temporary", high: "/leaf/segment_high"}, p)
	p, err = newPaths("/a/leaf", "/snowflake/com.example/forever")
	require.NoError(t, err)
	require.Equal(t, paths{root: "/a/leaf", forever: "/snowflake/com.example/forever", released: "/a/leaf/leaf_released", temporary: "/a/leaf/leaf_temporary", high: "/a/leaf/segment_high"}, p)
	require.Equal(t, []string{"/snowflake", "/snowflake/com.example"}, parents(p.forever))
	require.Empty(t, append(parents("/leaf"), parents("")...))
	require.Equal(t, "/a/leaf/leaf_temporary/[2001:db8::1]:8080~i", p.liveOf("[2001:db8::1]:8080", "i"))
	require.Equal(t, "/snowflake/com.example/forever/worker-0000000003", p.entryOf(3))
	require.Equal(t, "/a/leaf/leaf_released/0000000003", p.hintOf(3))
	for name, tt := range map[string]struct{ root, forever string }{
		"forever relative":    {"/leaf", "forever"},
		"forever is the root": {"/leaf", "/leaf"},
		"forever among live":  {"/leaf", "/leaf/leaf_temporary"},
		"forever among hints": {"/leaf", "/leaf/leaf_released"},
		"forever below live":  {"/leaf", "/leaf/leaf_temporary/x"},
	} {
		_, err := newPaths(tt.root, tt.forever)
		require.Error(t, err, name)
	}
}

func TestTagNames(t *testing.T) {
	for tag, escaped := range map[string]string{
		"10.0.0.5:8080":      "10.0.0.5:8080",
		"[2001:db8::1]:8080": "%5B2001:db8::1%5D:8080",
		"order-service-1":    "order-service-1",
		"a/b":                "a%2Fb",
		"100%":               "100%25",
		"%2F":                "%252F",
		".":                  "%2E",
		"..":                 "%2E.",
		"...":                "...",
		"a b\t\x00":          "a%20b%09%00",
		"é":                  "%C3%A9",
		"\xff":               "%FF",
	} {
		require.Equal(t, escaped, escape(tag))
		back, err := url.PathUnescape(escaped)
		require.NoError(t, err)
		require.Equal(t, tag, back)
	}
}

func TestEntryNames(t *testing.T) {
	for raw, want := range map[string]entryName{
		"worker-0000000003":             {workerID: 3},
		"worker-2147483647":             {workerID: math.MaxInt32},
		"10.0.0.5:8080-0000000003":      {workerID: 3},
		"[2001:db8::1]:8080-0000000000": {workerID: 0},
		"order-service-1-0000001023":    {workerID: 1023},
		"a-0000000001-0000000002":       {workerID: 2},
		"Worker-0000000003":             {workerID: 3},
		"worker--0000000003":            {workerID: 3},
	} {
		want.raw = raw
		got, ok := parseName(raw)
		require.True(t, ok, raw)
		require.Equal(t, want, got)
		require.Equal(t, strings.HasPrefix(raw, "worker-") && !strings.Contains(raw, "--"), got.isOurs(), raw)
	}
	peer, ok := parseLive("[2001:db8::1]:8080~i-1")
	require.True(t, ok)
	require.Equal(t, worker.Peer{Address: "[2001:db8::1]:8080", Instance: "i-1"}, peer)
	peer, ok = parseLive("~i")
	require.True(t, ok && peer.Address == "" && peer.Instance == "i", "a daemon with unix sockets only")
	for _, name := range []string{"", "10.0.0.5:8080", "10.0.0.5:8080~"} {
		_, ok = parseLive(name)
		require.False(t, ok, name)
	}
	negative := int32(math.MinInt32)
	for _, raw := range []string{
		"", "-", "a", "a-", "-0000000003", "a-3", "a-000000003", "a-00000000003", "a-00000000x3", "a-+000000003", "a--00000003",
		"a-2147483648", "a-9999999999", fmt.Sprintf("a-%010d", negative), fmt.Sprintf("a-%010d", -5), "a_0000000003",
	} {
		_, ok := parseName(raw)
		require.False(t, ok, raw)
	}
}

func FuzzNodeName(f *testing.F) {
	for _, seed := range []string{"10.0.0.5:8080", "[::1]:1", "..", "%2F", "a-0000000001", "\x00", "é/", "%", "a-2147483648", "%2E-0000000001", "%41-0000000001", "x--0000000001"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, node string) {
		escaped := escape(node)
		back, err := url.PathUnescape(escaped)
		require.NoError(t, err)
		require.Equal(t, node, back)
		require.NotContains(t, escaped, "/")
		require.NotContains(t, []string{".", ".."}, escaped)
		for _, c := range []byte(escaped) {
			require.True(t, c > ' ' && c <= '~')
		}
		if name, ok := parseName(node); ok { // any child of the parent
			require.Equal(t, node, name.raw)
			require.LessOrEqual(t, name.workerID, int64(math.MaxInt32))
			require.GreaterOrEqual(t, name.workerID, int64(0))
			require.Equal(t, paths{}.entryOf(name.workerID) == "/"+node, name.isOurs())
		}
		p := paths{temporary: "/t"}
		peer, ok := parseLive(strings.TrimPrefix(p.liveOf(strings.ReplaceAll(node, "~", ""), "i"), "/t/"))
		require.True(t, ok)
		require.Equal(t, worker.Peer{Address: strings.ReplaceAll(node, "~", ""), Instance: "i"}, peer)
	})
}
