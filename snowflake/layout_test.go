package snowflake_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
)

// All that it parses, it prints.
func FuzzParseLayout(f *testing.F) {
	for _, s := range []string{"41+10+12", "41+5+5+12", "041+10+12", "41+-10+12", "1+1+61"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := snowflake.ParseLayout(s, snowflake.DefaultEpoch)
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrBadLayout)
			return
		}
		require.Equal(t, s, l.String())
	})
}
