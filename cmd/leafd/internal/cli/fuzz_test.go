package cli

import (
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clitest"
	"github.com/leafd/leafd/test/clocktest"
)

// FuzzReadIDs: of IDs on the command line or standard input each is decoded and
// composed to itself, or all of them are refused.
func FuzzReadIDs(f *testing.F) {
	for _, s := range []string{"1\n", " 1 \n\n2", "-0", "+1", "-1", "007", "9223372036854775808", "2124140238493188149\r\n1", "x", "1\x002", "１", strings.Repeat("1", 70_000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := newApp(Process{Clock: clocktest.New(clitest.Now), Stdin: strings.NewReader(text)})
		layout := snowflake.DefaultLayout()
		got, err := a.readIDs([]string{"-"}, layout)
		var want []*big.Int
		right := true
		for line := range strings.SplitSeq(text, "\n") {
			line = strings.TrimSpace(line)
			n, ok := new(big.Int).SetString(line, 10)
			if line != "" {
				want = append(want, n)
				right = right && ok && strings.Trim(line, "0123456789") == "" && n.IsInt64()
			}
		}
		if err != nil {
			require.True(t, !right || len(text) > 60_000, "%v", err) // a line may be too long for any ID
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.True(t, right)
		require.Len(t, got, len(want))
		for i, d := range got {
			require.Equal(t, want[i].Int64(), d.id)
			back, err := layout.Compose(d.parts)
			require.NoError(t, err)
			require.Equal(t, d.id, back)
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
