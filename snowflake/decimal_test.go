package snowflake_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/snowflake"
)

// TestAppendDecimal: the digits are strconv's, for each number of digits and each value of
// the lanes of eightDigits.
func TestAppendDecimal(t *testing.T) {
	check := func(id int64) {
		if got, want := string(snowflake.AppendDecimal([]byte("x"), id)), "x"+strconv.FormatInt(id, 10); got != want {
			require.Equal(t, want, got)
		}
	}
	for power := int64(1); power > 0 && power <= 1e18; power *= 10 {
		for _, id := range []int64{power - 1, power, power + 1, -power} {
			check(id)
		}
	}
	check(math.MaxInt64)
	check(math.MinInt64)
	for lane := range int64(10000) { // each four digits in each place
		check(1e18 + lane + lane*1e4 + lane*1e8 + lane*1e12)
		check(1e18 + (9999-lane)*1e12 + lane*1e8 + (9999-lane)*1e4 + lane)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		check(r.Int64() >> r.IntN(63))
	}
}
