package snowflake

import (
	"encoding/binary"
	"strconv"
)

// AppendDecimal appends an ID in decimal, as strconv.AppendInt does. The nineteen digits of
// a snowflake ID take it half the time; they were 3 % of a pipelined request.
func AppendDecimal(b []byte, id int64) []byte {
	const eight, sixteen = 1e8, 1e16
	if id < sixteen {
		return strconv.AppendInt(b, id, 10)
	}
	high, low := uint64(id)/sixteen, uint64(id)%sixteen
	if high >= 100 {
		b = append(b, byte('0'+high/100), byte('0'+high/10%10), byte('0'+high%10)) //nolint:gosec // high is 922 at most
	} else {
		b = strconv.AppendUint(b, high, 10)
	}
	b = binary.LittleEndian.AppendUint64(b, eightDigits(low/eight))
	return binary.LittleEndian.AppendUint64(b, eightDigits(low%eight))
}

// eightDigits returns the digits of v < 10^8 as the bytes of a word, the first digit lowest.
// Each step divides all lanes of the word at once, with a multiplication and a shift that are
// exact for numbers of that many digits.
func eightDigits(v uint64) uint64 {
	v = v/10000 | v%10000<<32 // two lanes of four digits
	hundreds := v * 10486 >> 20 & 0x0000007f_0000007f
	v = hundreds | (v-100*hundreds)<<16 // four lanes of two
	tens := v * 103 >> 10 & 0x000f_000f_000f_000f
	return tens | (v-10*tens)<<8 | 0x30303030_30303030 // '0' in each
}
