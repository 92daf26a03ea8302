package zkreg

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPaths(t *testing.T) {
	p, err := newPaths("", "")
	require.NoError(t, err)
	require.Equal(t, paths{root: "/leaf", forever: "/leaf/leaf_forever", temporary: "/leaf/leaf_temporary", high: "/leaf/segment_high"}, p)
	p, err = newPaths("/a/leaf", "/snowflake/com.example/forever")
	require.NoError(t, err)
	require.Equal(t, paths{root: "/a/leaf", forever: "/snowflake/com.example/forever", temporary: "/a/leaf/leaf_temporary", high: "/a/leaf/segment_high"}, p)
	require.Equal(t, []string{"/snowflake", "/snowflake/com.example"}, parents(p.forever))
	require.Empty(t, append(parents("/leaf"), parents("")...))
	require.Equal(t, "/a/leaf/leaf_temporary/[2001:db8::1]:8080", p.temporaryOf("[2001:db8::1]:8080"))
	require.Equal(t, "/snowflake/com.example/forever/10.0.0.5:8080-0000000003", p.foreverOf(nameOf("10.0.0.5:8080", 3)))
	require.Equal(t, "/snowflake/com.example/forever/10.0.0.5:8080-", p.prefixOf("10.0.0.5:8080"))
	for name, tt := range map[string]struct{ root, forever string }{
		"relative":              {"leaf", ""},
		"the tree's own root":   {"/", ""},
		"slash at the end":      {"/leaf/", ""},
		"double slash":          {"/leaf//x", ""},
		"dots":                  {"/leaf/../x", ""},
		"ZooKeeper's own":       {"/zookeeper/leaf", ""},
		"a space":               {"/le af", ""},
		"not ASCII":             {"/узел", ""},
		"forever relative":      {"/leaf", "forever"},
		"forever is the root":   {"/leaf", "/leaf"},
		"forever among live":    {"/leaf", "/leaf/leaf_temporary"},
		"forever below live":    {"/leaf", "/leaf/leaf_temporary/x"},
		"forever with a NUL":    {"/leaf", "/x\x00"},
		"forever, slash at end": {"/leaf", "/x/"},
	} {
		_, err := newPaths(tt.root, tt.forever)
		require.Error(t, err, name)
	}
}

func TestNodeNames(t *testing.T) {
	for node, escaped := range map[string]string{
		"10.0.0.5:8080":      "10.0.0.5:8080",
		"[2001:db8::1]:8080": "[2001:db8::1]:8080",
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
		require.Equal(t, escaped, escapeNode(node))
		require.Equal(t, node, unescapeNode(escaped))
	}
	for _, raw := range []string{"%", "%2", "%zz", "%2f", "100%", "%41", "é"} {
		require.Equal(t, raw, unescapeNode(raw), "nothing that escapeNode makes: it stays as it is")
	}
	require.NoError(t, checkNode("10.0.0.5:8080"))
	require.NoError(t, checkNode(strings.Repeat("a", maxName)))
	require.ErrorContains(t, checkNode(""), "empty")
	require.ErrorContains(t, checkNode(strings.Repeat("a", maxName+1)), "255")
	require.Error(t, checkNode(strings.Repeat("/", maxName/3+1)))
}

func TestEntryNames(t *testing.T) {
	for raw, want := range map[string]entryName{
		"10.0.0.5:8080-0000000003":      {node: "10.0.0.5:8080", workerID: 3},
		"[2001:db8::1]:8080-0000000000": {node: "[2001:db8::1]:8080", workerID: 0},
		"order-service-1-0000001023":    {node: "order-service-1", workerID: 1023},
		"a-0000000001-0000000002":       {node: "a-0000000001", workerID: 2},
		"a-2147483647":                  {node: "a", workerID: math.MaxInt32},
	} {
		want.raw = raw
		got, ok := parseName(raw)
		require.True(t, ok, raw)
		require.Equal(t, want, got)
		require.Equal(t, raw, nameOf(unescapeNode(want.node), want.workerID).raw)
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
		escaped := escapeNode(node)
		require.Equal(t, node, unescapeNode(escaped))
		require.NotContains(t, escaped, "/")
		require.NotContains(t, []string{".", ".."}, escaped)
		for _, c := range []byte(escaped) {
			require.True(t, c > ' ' && c <= '~')
		}
		if node != "" {
			name, ok := parseName(nameOf(node, 1023).raw)
			require.True(t, ok)
			require.Equal(t, entryName{raw: escaped + "-0000001023", node: escaped, workerID: 1023}, name)
		}
		if name, ok := parseName(node); ok { // any child of the forever node
			require.Equal(t, node, fmt.Sprintf("%s-%010d", name.node, name.workerID))
			require.LessOrEqual(t, name.workerID, int64(math.MaxInt32))
			require.GreaterOrEqual(t, name.workerID, int64(0))
			if node := unescapeNode(name.node); escapeNode(node) == name.node { // ours
				require.Equal(t, nameOf(node, name.workerID), name)
			} else { // another program's: it is no node's of ours
				require.Equal(t, name.node, node)
			}
		}
	})
}
