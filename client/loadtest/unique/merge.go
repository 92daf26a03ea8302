package unique

import (
	"context"
	"fmt"
	"math"
)

// merge gives the keys of all sources to sink, in blocks that don't fall.
func merge(ctx context.Context, sources []*source, sink func(keys []uint64) error) error {
	// A heap by each source's next key; the least is heap[0].
	heap := make([]*source, 0, len(sources))
	for _, s := range sources {
		if err := s.fill(); err != nil {
			return err
		}
		if len(s.keys) > 0 {
			heap = append(heap, s)
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}
	for turn := 0; len(heap) > 0; turn++ {
		if turn%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("unique: the check was ended early: %w", err)
			}
		}
		s := heap[0]
		// As far as the next best source allows: runs of IDs that grew with
		// time hardly overlap, so that this is most of a block.
		n := upTo(s.keys, second(heap))
		if err := sink(s.keys[:n]); err != nil {
			return err
		}
		s.keys = s.keys[n:]
		if err := s.fill(); err != nil {
			return err
		}
		if len(s.keys) == 0 {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		siftDown(heap, 0)
	}
	return nil
}

// second is the least next key but the first's.
func second(heap []*source) uint64 {
	least := uint64(math.MaxUint64)
	for i := 1; i <= 2 && i < len(heap); i++ {
		least = min(least, heap[i].keys[0])
	}
	return least
}

// upTo is how many of keys, which don't fall, are limit at most: one at least,
// as the first is.
func upTo(keys []uint64, limit uint64) int {
	if len(keys) <= runBlock && keys[len(keys)-1] <= limit {
		return len(keys)
	}
	n := 1
	for n < len(keys) && n < runBlock && keys[n] <= limit {
		n++
	}
	return n
}

func siftDown(heap []*source, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if heap[child].keys[0] < heap[least].keys[0] {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}
