package unique

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzDecode: decoding a chunk of any bytes ends, and what was decoded
// whole encodes to the same again.
func FuzzDecode(f *testing.F) {
	var e encoder
	e.add(Place{Client: 3, Request: 70, At: 5 * time.Millisecond}, []int64{1, 2, math.MinInt64, math.MaxInt64})
	e.add(Place{Client: 1, Request: 71, At: 4 * time.Millisecond}, []int64{-7})
	f.Add(e.buf)
	f.Add([]byte{0, 0, 0, 0x80, 0x80, 0x01})
	type added struct {
		p  Place
		id int64
	}
	decoded := func(chunk []byte) (list []added, err error) {
		err = decode(chunk, func(p Place, id int64) { list = append(list, added{p, id}) })
		return list, err
	}
	f.Fuzz(func(t *testing.T, chunk []byte) {
		list, err := decoded(chunk)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			return
		}
		var again encoder
		for _, a := range list {
			if a.p.At%time.Microsecond != 0 {
				return // nothing writes these
			}
			again.add(a.p, []int64{a.id})
		}
		got, err := decoded(again.buf)
		require.NoError(t, err)
		require.Equal(t, list, got)
	})
}
