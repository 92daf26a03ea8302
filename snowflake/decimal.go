package snowflake

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// AppendDecimal appends an ID in decimal, as strconv.AppendInt does, in half its time: the
// digits of an ID were 3 % of a pipelined request.
func AppendDecimal(b []byte, id int64) []byte {
	const eight, sixteen = 1e8, 1e16
	if id < 0 {
		return strconv.AppendInt(b, id, 10)
	}
	v := uint64(id)
	switch {
	case v < eight:
		return appendFirst(b, v)
	case v < sixteen:
		b = appendFirst(b, v/eight)
	default:
		if high := v / sixteen; high >= 100 { // nineteen digits, as a snowflake ID has
			b = append(b, byte('0'+high/100), byte('0'+high/10%10), byte('0'+high%10)) //nolint:gosec // high is 922 at most
		} else {
			b = appendFirst(b, high)
		}
		b = binary.LittleEndian.AppendUint64(b, eightDigits(v/eight%eight))
	}
	return binary.LittleEndian.AppendUint64(b, eightDigits(v%eight))
}

// appendFirst appends v < 10^8 without zeros before it.
func appendFirst(b []byte, v uint64) []byte {
	digits := eightDigits(v)
	zeros := bits.TrailingZeros64(digits&0x0f0f0f0f_0f0f0f0f|1<<56) / 8 // the last digit stays
	return binary.LittleEndian.AppendUint64(b, digits>>(8*zeros))[:len(b)+8-zeros]
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
