package ids

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
)

// FuzzPath compares splitKey with fasthttp's parser of a target and net/url's
// decoding of the key.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"", "order", "a%2Fb", "a/b", "a/", "/", "a//", "a?n=1", "a#b?n=1", "a?n=1#b", "%zz", "%", "%2", "a+b", "%E8%AE%A2", "\xff", "..", "?", "#", "a?b=http://x/", "a://b", "%00", strings.Repeat("k", 129), strings.Repeat("%6b", 128), strings.Repeat("%E8%AE%A2", 129)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		target := append([]byte(segmentPrefix), rest...)
		var oracle fasthttp.URI
		if oracle.Parse([]byte("x"), target) != nil {
			return // fasthttp answers it before any handler
		}
		m, got := matchIDs(target)
		require.Equal(t, segmentMode, m)
		require.Equal(t, rest, got)
		key, query, err := splitKey(got)

		raw := strings.Trim(strings.TrimPrefix(string(oracle.PathOriginal()), segmentPrefix), "/")
		decoded, uerr := url.PathUnescape(raw)
		valid := uerr == nil && decoded != "" && len(decoded) <= segment.MaxTagBytes && utf8.RuneCountInString(decoded) <= segment.MaxTagChars && utf8.ValidString(decoded) && strings.IndexFunc(decoded, unicode.IsControl) < 0
		switch {
		case strings.Contains(raw, "/"):
			require.Equal(t, error(reply.ErrNotFound), err)
		case !valid:
			require.Equal(t, error(reply.ErrBadKey), err)
		default:
			require.NoError(t, err)
			require.Equal(t, decoded, string(key))
			require.Equal(t, string(oracle.QueryString()), string(query))
		}
		if err == nil {
			requireQuery(t, query, oracle.QueryArgs(), &live{maxBatch: DefaultMaxBatch, maxRange: DefaultMaxRange})
		}
	})
}

// FuzzQuery compares parseQuery with fasthttp's parser and strconv.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"", "n=1", "n=10000", "n=10001", "n=0", "n=-1", "n=", "n", "n=1&n=2", "x=1", "x&n=5", "%6e=5", "n=%35", "n=+5", "n=0007", "n=99999999999999999999", "n=1&", "&n=1", "n==1", "N=1", "n=1;n=2", "n=1#",
		"n=5&as=ranges", "as=ranges", "as=range&n=1", "as=ranges&as=ranges&n=1", "%61s=ranges&n=20001", "as&n=1", "as=ranges&n=1&", "as=ranges&x=1",
	} {
		f.Add([]byte(s), 10_000, 20_000)
	}
	f.Add([]byte("n=1"), 1, 1)
	f.Add([]byte("n=2147483647"), 1<<31-1, 1)
	f.Fuzz(func(t *testing.T, query []byte, maxBatch, maxRange int) {
		if min(maxBatch, maxRange) < 1 || max(maxBatch, maxRange) > 1<<31-1 {
			return
		}
		var args fasthttp.Args
		args.ParseBytes(query)
		before := bytes.Clone(query)
		requireQuery(t, query, &args, &live{maxBatch: maxBatch, maxRange: maxRange})
		require.Equal(t, before, append([]byte{}, query...))
	})
}

// requireQuery fails unless parseQuery finds in a query what its arguments say.
func requireQuery(t *testing.T, query []byte, args *fasthttp.Args, settings *live) {
	t.Helper()
	for m, most := range map[mode]int{snowflakeMode: settings.maxBatch, segmentMode: settings.maxRange} {
		n, ranges, err := settings.parseQuery(m, query)
		as := args.PeekMulti("as")
		counts := args.PeekMulti("n")
		if len(as) == 0 {
			most = settings.maxBatch
		}
		switch count, ok := countOracle(counts, most); {
		case len(as)+len(counts) == 0:
			require.NoError(t, err)
			require.Zero(t, n)
			require.False(t, ranges)
		case len(as)+len(counts) < args.Len():
			require.Equal(t, error(reply.ErrBadQuery), err)
		case len(as) > 1, len(as) == 1 && string(as[0]) != "ranges":
			require.Equal(t, error(reply.ErrBadAs), err)
		case !ok:
			require.ErrorContains(t, err, "bad_count: n is given once, as a number from 1 to "+strconv.Itoa(most))
		default:
			require.NoError(t, err)
			require.Equal(t, count, n)
			require.Equal(t, len(as) == 1, ranges)
		}
	}
}

func countOracle(values [][]byte, limit int) (int, bool) {
	if len(values) != 1 || bytes.ContainsAny(values[0], "+-_") {
		return 0, false
	}
	n, err := strconv.ParseUint(string(values[0]), 10, 64)
	if err != nil || n < 1 || n > uint64(limit) {
		return 0, false
	}
	return int(n), true
}
