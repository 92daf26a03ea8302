package metrics

import "slices"

// best collects the first n by compare, in order. No two may be equal.
type best[T any] struct {
	n       int
	compare func(a, b T) int
	all     []T
}

func (b *best[T]) offer(v T) {
	full := len(b.all) == b.n
	if full && b.compare(v, b.all[b.n-1]) >= 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(b.all, v, b.compare)
	if full {
		b.all = b.all[:b.n-1]
	}
	b.all = slices.Insert(b.all, at, v)
}
