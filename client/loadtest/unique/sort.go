package unique

// keyOf maps IDs to numbers without a sign, in the same order; idOf is the way back.
func keyOf(id int64) uint64     { return uint64(id) ^ 1<<63 }
func idOf(key uint64) int64     { return int64(key ^ 1<<63) }
func digit(k uint64, i int) int { return int(k >> (8 * i) & 0xff) }

// sortKeys sorts keys by their bytes, least significant first, and returns them;
// scratch is as long. Bytes in which all keys agree take no time, which most are
// of IDs that were made within a short while.
func sortKeys(keys, scratch []uint64) (sorted, rest []uint64) {
	var counts [8][256]int
	for _, k := range keys {
		for i := range 8 {
			counts[i][digit(k, i)]++
		}
	}
	scratch = scratch[:len(keys)]
	for i := range 8 {
		if len(keys) == 0 || counts[i][digit(keys[0], i)] == len(keys) {
			continue
		}
		var at [256]int
		sum := 0
		for b, n := range counts[i] {
			at[b] = sum
			sum += n
		}
		for _, k := range keys {
			b := digit(k, i)
			scratch[at[b]] = k
			at[b]++
		}
		keys, scratch = scratch, keys
	}
	return keys, scratch
}
