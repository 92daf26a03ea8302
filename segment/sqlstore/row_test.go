package sqlstore

import (
	"database/sql"
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
)

func TestParseInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "-1": -1, "9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64,
	} {
		got, ok := parseInteger([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{
		"", " ", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "1e3", "0x10", "1_000", "9223372036854775808",
		"-9223372036854775809", "12 apples", "١", "NaN", "1\x00",
	} {
		got, ok := parseInteger([]byte(text))
		require.False(t, ok, "%q", text)
		require.EqualValues(t, unreadable, got, "%q", text)
	}
}

// FuzzReserve checks what a row's values lead to against arithmetic without an
// end: the text of max_id and step can be anything that a database returns.
func FuzzReserve(f *testing.F) {
	f.Add("1", "2000", int64(2000), int64(0), false)
	f.Add("0", "1", int64(0), int64(0), false)
	f.Add("9223372036854775797", "10", int64(10), int64(0), false)
	f.Add("9223372036854775798", "10", int64(10), int64(0), false)
	f.Add("9223372036854775807", "1", int64(math.MinInt64), int64(math.MaxInt64), false)
	f.Add("-1", "10", int64(10), int64(-5), false)
	f.Add("100", "0", int64(10), int64(0), false)
	f.Add("100", "-9223372036854775808", int64(10), int64(101), false)
	f.Add("99", "10", int64(math.MaxInt64), int64(100), false)
	f.Add("99", "10", int64(10), int64(100), true)
	f.Add("12 apples", "1e3", int64(1), int64(1), false)
	f.Fuzz(func(t *testing.T, maxIDText, stepText string, want, floor int64, above bool) {
		row := lockedRow{maxID: sql.NullString{String: maxIDText, Valid: true}, step: sql.NullString{String: stepText, Valid: true}, rows: 1}
		var r segment.Range
		maxID, step, err := row.values()
		if err == nil {
			r, err = segment.Reserve(maxID, step, want, floor, above, func(string, int64) string { return "" })
		}
		if err != nil {
			require.True(t, errors.Is(err, segment.ErrBadRow) || errors.Is(err, segment.ErrRegressed), "%v", err)
			require.Zero(t, r)
			requireRefusalRight(t, maxIDText, stepText, want, floor, above)
			return
		}
		lo, ok := new(big.Int).SetString(maxIDText, 10)
		require.True(t, ok)
		require.Equal(t, lo.String(), maxIDText)
		size := new(big.Int).Sub(big.NewInt(r.Hi), big.NewInt(r.Lo))
		require.Zero(t, lo.Cmp(big.NewInt(r.Lo-r.Skipped)), "Lo is max_id, or above")
		require.True(t, r.Skipped == 0 || above && r.Skipped > 0 && r.Lo == floor, "only so far as it has to")
		require.GreaterOrEqual(t, r.Lo, max(0, floor))
		require.Zero(t, size.Cmp(big.NewInt(max(want, r.Step))), "the range is as long as it says")
		require.Positive(t, r.Step)
		require.Equal(t, stepText, decimal(r.Step))
	})
}

// requireRefusalRight checks that a row that was refused is one to refuse.
func requireRefusalRight(t *testing.T, maxIDText, stepText string, want, floor int64, above bool) {
	t.Helper()
	maxID, ok := new(big.Int).SetString(maxIDText, 10)
	if !ok || maxID.String() != maxIDText || !maxID.IsInt64() {
		return
	}
	step, ok := new(big.Int).SetString(stepText, 10)
	if !ok || step.String() != stepText || !step.IsInt64() {
		return
	}
	lo := maxID
	if above && big.NewInt(floor).Cmp(lo) > 0 {
		lo = big.NewInt(floor)
	}
	hi := new(big.Int).Add(lo, big.NewInt(max(want, step.Int64())))
	require.True(t, step.Sign() < 1 || maxID.Sign() < 0 || !above && maxID.Int64() < floor || !hi.IsInt64(),
		"max_id %s, step %s, want %d, floor %d, above %v was refused", maxID, step, want, floor, above)
}
