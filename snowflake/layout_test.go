package snowflake_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

func TestRangeBoundsAMillisecond(t *testing.T) {
	l := snowflake.DefaultLayout()
	at := l.Epoch + 12345
	first, last, err := l.Range(at)
	require.NoError(t, err)
	for id, want := range map[int64]clock.Millis{first: at, last: at, first - 1: at - 1, last + 1: at + 1} {
		parts, err := l.Decode(id)
		require.NoError(t, err)
		require.Equal(t, want, parts.Time)
	}
	_, _, err = l.Range(l.End() + 1)
	require.ErrorIs(t, err, snowflake.ErrTimeExhausted)
}

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
