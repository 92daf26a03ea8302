package unique

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzDecoder: whatever stands in a chunk, decoding it ends, and what was decoded
// whole encodes to the same again.
func FuzzDecoder(f *testing.F) {
	e := newEncoder(nil)
	require.Empty(f, e.add(Place{Client: 3, Request: 70, At: 5 * time.Millisecond}, []int64{1, 2, math.MinInt64, math.MaxInt64}))
	require.Empty(f, e.add(Place{Client: 1, Request: 71, At: 4 * time.Millisecond}, []int64{-7}))
	f.Add(e.seal(newCastagnoli())[headBytes:])
	f.Add([]byte{0, 0, 0, 0x80, 0x80, 0x01})
	f.Fuzz(func(t *testing.T, entries []byte) {
		if len(entries) > chunkBytes/8 {
			return // of these, longer forms would need more than a chunk
		}
		d := newDecoder(append(make([]byte, headBytes), entries...))
		again := newEncoder(nil)
		var places []Place
		var all []int64
		for {
			p, ids, more := d.entry(nil)
			if !more {
				break
			}
			if len(ids) == 0 || p.At.Microseconds() != d.at.micros {
				return // nothing writes these
			}
			places, all = append(places, p), append(all, ids...)
			require.Empty(t, again.add(p, ids))
		}
		if d.bad {
			return
		}
		d = newDecoder(again.seal(newCastagnoli()))
		var got []int64
		for i := range places {
			p, ids, more := d.entry(nil)
			require.True(t, more)
			require.Equal(t, places[i], p)
			got = append(got, ids...)
		}
		require.Equal(t, all, got)
	})
}
