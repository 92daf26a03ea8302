package cli

import (
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
)

// FuzzReadIDs: of IDs on the command line each is decoded and composed to itself, or all of
// them are refused.
func FuzzReadIDs(f *testing.F) {
	for _, s := range []string{"1\n", " 1 \n\n2", "-0", "+1", "-1", "007", "9223372036854775808", "2124140238493188149\r\n1", "x", "1\x002", "１", strings.Repeat("1", 70_000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		layout := snowflake.DefaultLayout()
		args := strings.Split(text, "\n")
		got, err := readIDs(args, layout)
		var want []*big.Int
		right := true
		for _, arg := range args {
			n, ok := new(big.Int).SetString(arg, 10)
			want = append(want, n)
			right = right && ok && strings.Trim(arg, "0123456789") == "" && n.IsInt64()
		}
		if err != nil {
			require.False(t, right, "%v", err)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.True(t, right)
		require.Len(t, got, len(want))
		for i, d := range got {
			require.Equal(t, want[i].Int64(), int64(d.ID))
			back, err := layout.Compose(snowflake.Parts{Time: d.Timestamp, Worker: d.Worker, Sequence: d.Sequence})
			require.NoError(t, err)
			require.Equal(t, want[i].Int64(), back)
		}
	})
}

// FuzzDaemonAnswer: what a daemon answers is its IDs, as it writes them, or an error
// on one printable line.
func FuzzDaemonAnswer(f *testing.F) {
	for _, s := range []string{`{"ids":["1","2"]}`, `{"ids":["+1"]}`, `{"ids":["-1"]}`, `{"ids":["007"]}`, `{"ids":[1]}`, `{"ids":null}`, `{"IDS":["1"]}`, `{"code":"x","message":"\u001b[2J\n"}`, `<html>`, ``, `{"ids":["9223372036854775808"]}`, `{"ids":["1\n2"]}`} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), 2)
	}
	f.Fuzz(func(t *testing.T, body []byte, n int) {
		got, err := readAnswer(body, n)
		if err == nil {
			require.Len(t, got.IDs, n)
			for _, text := range got.IDs {
				id, err := strconv.ParseInt(text, 10, 64)
				require.NoError(t, err)
				require.Equal(t, strconv.FormatInt(id, 10), text)
				require.GreaterOrEqual(t, id, int64(0))
			}
		}
		for _, err := range []error{err, refused("503 Service Unavailable", body)} {
			if err != nil {
				require.Equal(t, -1, strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
			}
		}
	})
}
