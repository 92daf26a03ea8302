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
