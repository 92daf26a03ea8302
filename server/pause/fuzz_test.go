package pause

import (
	"encoding/json"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

// FuzzList is FuzzDecode behind the checksum, which a fuzzer can't guess: what is
// believed is a list that leafd could have written.
func FuzzList(f *testing.F) {
	for _, list := range []string{
		`[]`, `null`, `[{"tag":"order","reason":"why","since":5}]`, `[{"tag":"a"},{"tag":"a"}]`, `[{"tag":""}]`, `[null]`, `[{"tag":"a","Tag":"b"}]`, `[{"tag":"\u0000"}]`, `[{"tag":"\ud800"}]`, `[{"tag":"a","since":-1}]`,
		`[{"tag":"a","reason":"\n"}]`, `[{"tag":"a","x":1}]`, `[{"since":1e3,"tag":"a"}]`, `{}`, `[[`,
	} {
		f.Add([]byte(list))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		var given []Entry
		if json.Unmarshal(list, &given) != nil {
			return
		}
		sum, err := checksum(given)
		require.NoError(t, err)
		content, err := json.Marshal(map[string]any{"leafd": version, "sha256": sum, "stopped": json.RawMessage(list)})
		require.NoError(t, err)
		got, err := decode(content)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			require.Nil(t, got)
			return
		}
		require.Len(t, got, len(given))
		seen := map[string]bool{}
		for i, stop := range got {
			require.Equal(t, given[i], *stop)
			require.True(t, stop.Tag != "" && len(stop.Tag) <= segment.MaxTagBytes && utf8.ValidString(stop.Tag))
			require.LessOrEqual(t, utf8.RuneCountInString(stop.Reason), MaxReason)
			for _, r := range stop.Tag + stop.Reason {
				require.False(t, unicode.IsControl(r), "%q", stop)
			}
			require.False(t, seen[stop.Tag])
			seen[stop.Tag] = true
		}
	})
}
