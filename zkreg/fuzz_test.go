package zkreg

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// FuzzPaths: two roots that are accepted put everything where ZooKeeper takes it, and
// nothing in the place of something else.
func FuzzPaths(f *testing.F) {
	for _, s := range [][2]string{
		{"", ""},
		{"/leaf", "/snowflake/shop/forever"},
		{"/", "/x"},
		{"/leaf/", ""},
		{"/a/../b", ""},
		{"/a//b", ""},
		{"/zookeeper/x", ""},
		{"/zookeeper", ""},
		{"/zookeeperx", ""},
		{"/a b", ""},
		{"/\u00e9", ""},
		{"/leaf", "/leaf"},
		{"/leaf", "/leaf/leaf_temporary"},
		{"/leaf", "/leaf/leaf_temporary/x"},
		{"/leaf", "/leaf/leaf_temporaryx"},
		{"/leaf/x", "/leaf"},
		{"leaf", ""},
		{"/.", ""},
		{"/leaf", "/leaf/./x"},
		{"/\x00", ""},
		{"/leaf", "/x/"},
	} {
		f.Add(s[0], s[1], "order")
	}
	for _, tag := range []string{".", "..", "...", "a/../b", "\x00\x1f\x7f", strings.Repeat("/", segment.MaxTagBytes), strings.Repeat("😀", segment.MaxTagBytes/4)} {
		f.Add("", "", tag)
	}
	good := regexp.MustCompile(`^(/[!-.0-~]+)+$`)
	f.Fuzz(func(t *testing.T, root, forever, tag string) {
		p, err := newPaths(root, forever)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		entry, mark, hint := p.entryOf(7), p.liveOf("10.0.0.5:8080", "i"), p.hintOf(7)
		for _, s := range []string{p.root, p.forever, p.temporary, p.released, entry, mark, hint} {
			require.Regexp(t, good, s)
			require.Equal(t, s, path.Clean(s))
			require.NotContains(t, []string{"zookeeper"}, strings.Split(s, "/")[1])
		}
		if tag != "" {
			high := p.highOf(tag)
			require.Regexp(t, good, high)
			require.Equal(t, high, path.Clean(high))
			require.Equal(t, p.high, path.Dir(path.Dir(high)))
		}
		require.Equal(t, p.forever, path.Dir(entry))
		require.Equal(t, p.temporary, path.Dir(mark))
		require.Equal(t, p.released, path.Dir(hint))
		all := []string{p.root, p.forever, p.temporary, p.released, entry, mark, hint}
		for i, one := range all {
			require.NotContains(t, all[:i], one)
		}
		above := parents(entry)
		require.Equal(t, p.forever, above[len(above)-1])
		for i, s := range above[1:] {
			require.Equal(t, above[i], path.Dir(s))
		}
	})
}
