package snowflake_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

func TestParseLayoutRefuses(t *testing.T) {
	for _, s := range []string{
		"", "41", "41+10", "41+10+13", "41+5+5+12+1", "41+10+12+1", "0+10+12", "41+0+12", "41+10+0", "-41+10+12",
		"41+-10+12", "41++12", "a+b+c", "41.0+10+12", "041+10+12", "41+10+12 ", " 41+10+12", "256+10+12", "63+1+1", "99999999999999999999+1+1",
	} {
		_, err := snowflake.ParseLayout(s, snowflake.DefaultEpoch)
		require.ErrorIs(t, err, snowflake.ErrBadLayout, "%q", s)
	}
	for _, epoch := range []clock.Millis{-1, math.MaxInt64} {
		_, err := snowflake.ParseLayout("41+10+12", epoch)
		require.ErrorIs(t, err, snowflake.ErrBadLayout)
	}
}

func TestDefaultLayoutFigures(t *testing.T) {
	l := snowflake.DefaultLayout()
	require.Equal(t, "41+10+12", l.String())
	require.Equal(t, int64(1023), l.MaxWorker())
	require.Equal(t, int64(4095), l.MaxSequence())
	require.Equal(t, int64(0), l.MaxDatacenter())
	require.Equal(t, "2080-07-10T17:30:30.208Z", l.End().String())
}

func TestDecodeRefuses(t *testing.T) {
	narrow, err := snowflake.ParseLayout("39+8+4", snowflake.DefaultEpoch)
	require.NoError(t, err)
	for _, id := range []int64{-1, math.MinInt64, 1 << 51, math.MaxInt64} {
		_, err := narrow.Decode(id)
		require.ErrorIs(t, err, snowflake.ErrBadID, "%d", id)
	}
	_, err = narrow.Decode(1<<51 - 1)
	require.NoError(t, err)
}

func TestComposeRefuses(t *testing.T) {
	l := snowflake.DefaultLayout()
	for name, tt := range map[string]struct {
		parts snowflake.Parts
		want  error
	}{
		"before the epoch": {snowflake.Parts{Time: l.Epoch - 1}, snowflake.ErrTimeExhausted},
		"past the end":     {snowflake.Parts{Time: l.End() + 1}, snowflake.ErrTimeExhausted},
		"worker":           {snowflake.Parts{Time: l.Epoch, Worker: 1024}, snowflake.ErrBadID},
		"negative worker":  {snowflake.Parts{Time: l.Epoch, Worker: -1}, snowflake.ErrBadID},
		"sequence":         {snowflake.Parts{Time: l.Epoch, Sequence: 4096}, snowflake.ErrBadID},
		"datacenter":       {snowflake.Parts{Time: l.Epoch, Datacenter: 1}, snowflake.ErrBadID},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := l.Compose(tt.parts)
			require.ErrorIs(t, err, tt.want)
		})
	}
}

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

// All that a layout accepts, it composes back; all that it parses, it prints.
func FuzzLayoutRoundTrip(f *testing.F) {
	f.Add("41+10+12", int64(1288834974657), int64(1))
	f.Add("41+5+5+12", int64(0), int64(math.MaxInt64))
	f.Add("1+1+60", int64(1), int64(-1))
	f.Fuzz(func(t *testing.T, s string, epoch, id int64) {
		l, err := snowflake.ParseLayout(s, clock.Millis(epoch))
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrBadLayout)
			return
		}
		require.Equal(t, s, l.String())
		parts, err := l.Decode(id)
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrBadID)
			return
		}
		back, err := l.Compose(parts)
		require.NoError(t, err)
		require.Equal(t, id, back)
		first, last, err := l.Range(parts.Time)
		require.NoError(t, err)
		require.LessOrEqual(t, first, id)
		require.GreaterOrEqual(t, last, id)
	})
}
