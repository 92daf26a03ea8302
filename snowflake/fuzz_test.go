package snowflake_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// FuzzDecode compares Decode and Compose with the bits of an ID, written out as text,
// for every layout there can be.
func FuzzDecode(f *testing.F) {
	f.Add(uint8(41), uint8(0), uint8(10), uint8(12), int64(1288834974657), int64(1<<60))
	f.Add(uint8(41), uint8(5), uint8(5), uint8(12), int64(0), int64(math.MaxInt64))
	f.Add(uint8(1), uint8(0), uint8(1), uint8(61), int64(0), int64(-1))
	f.Add(uint8(30), uint8(0), uint8(10), uint8(12), int64(1), int64(1)<<52)
	f.Add(uint8(255), uint8(255), uint8(255), uint8(255), int64(math.MinInt64), int64(math.MinInt64))
	f.Add(uint8(41), uint8(0), uint8(10), uint8(12), int64(-1), int64(1))
	f.Add(uint8(41), uint8(0), uint8(10), uint8(12), int64(math.MaxInt64), int64(1))
	f.Fuzz(func(t *testing.T, timeBits, datacenterBits, workerBits, sequenceBits uint8, epoch, id int64) {
		l := snowflake.Layout{Epoch: clock.Millis(epoch), TimeBits: timeBits, DatacenterBits: datacenterBits, WorkerBits: workerBits, SequenceBits: sequenceBits}
		err := l.Validate()
		width := int(timeBits) + int(datacenterBits) + int(workerBits) + int(sequenceBits)
		right := timeBits > 0 && workerBits > 0 && sequenceBits > 0 && width <= 63 && epoch >= 0 && epoch <= 7258118400000
		require.Equal(t, right, err == nil, "%s: %v", l, err)
		if err != nil {
			require.ErrorIs(t, err, snowflake.ErrBadLayout)
			return
		}
		parsed, err := snowflake.ParseLayout(l.String(), l.Epoch)
		require.NoError(t, err)
		require.Equal(t, l, parsed)

		parts, err := l.Decode(id)
		bits := fmt.Sprintf("%b", id)
		if id < 0 || len(strings.TrimLeft(bits, "0")) > width {
			require.ErrorIs(t, err, snowflake.ErrBadID)
			return
		}
		require.NoError(t, err)
		bits = fmt.Sprintf("%0*b", width, id)
		next := func(n uint8) int64 {
			if n == 0 {
				return 0
			}
			number, ok := new(big.Int).SetString(bits[:n], 2)
			require.True(t, ok)
			bits = bits[n:]
			return number.Int64()
		}
		require.Equal(t, next(timeBits), int64(parts.Time)-epoch)
		require.Equal(t, next(datacenterBits), parts.Datacenter)
		require.Equal(t, next(workerBits), parts.Worker)
		require.Equal(t, next(sequenceBits), parts.Sequence)
		back, err := l.Compose(parts)
		require.NoError(t, err)
		require.Equal(t, id, back)
		first, last, err := l.Range(parts.Time)
		require.NoError(t, err)
		require.True(t, first <= id && id <= last)
		_, _, err = l.Range(l.End() + 1)
		require.ErrorIs(t, err, snowflake.ErrTimeExhausted)
		for beyond, want := range map[snowflake.Parts]error{
			{Time: l.End() + 1}:                                snowflake.ErrTimeExhausted,
			{Time: l.Epoch - 1}:                                snowflake.ErrTimeExhausted,
			{Time: l.Epoch, Worker: l.MaxWorker() + 1}:         snowflake.ErrBadID,
			{Time: l.Epoch, Worker: -1}:                        snowflake.ErrBadID,
			{Time: l.Epoch, Sequence: l.MaxSequence() + 1}:     snowflake.ErrBadID,
			{Time: l.Epoch, Datacenter: l.MaxDatacenter() + 1}: snowflake.ErrBadID,
		} {
			_, err := l.Compose(beyond)
			require.ErrorIs(t, err, want, "%+v", beyond)
		}
	})
}
