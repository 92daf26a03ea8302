package unique

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// parts is into how many equal parts a range of IDs is divided at most. Their
// counters are 128 kB, once for each depth of compare, which is five at most.
const parts = 1 << 14

// Check compares all IDs with each other. It may be called once, when no lane is
// in use any more; it returns ErrChecked otherwise, ErrStorage or ErrDamaged
// where no verdict is possible, and ctx's error when it was ended early. progress
// may be nil.
func (j *Journal) Check(ctx context.Context, progress Progress) (Report, error) {
	if progress == nil {
		progress = func(Stage, int64, int64) {}
	}
	ids, sum, err := j.finish()
	if err != nil || ids == 0 {
		return Report{}, err
	}
	c := &checker{j: j, progress: progress, ids: ids, room: make([]int64, min(int64(j.opts.capacity()), ids))}
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for _, k := range j.chunks {
		low, high = min(low, k.low), max(high, k.high)
	}
	if err := c.compare(ctx, StageCount, low, high, ids); err != nil {
		return Report{}, err
	}
	if c.report.IDs != ids || c.sum != sum {
		return Report{}, fmt.Errorf("%w: %d IDs of sum %d were added, and %d of sum %d were compared", ErrDamaged, ids, sum, c.report.IDs, c.sum)
	}
	if err := c.locate(ctx, c.report.First); err != nil {
		return Report{}, err
	}
	c.report.Bytes = j.size
	return c.report, nil
}

// checker is one check.
type checker struct {
	j        *Journal
	progress Progress
	ids      int64   // added
	room     []int64 // to sort in
	report   Report  // so far: of the smallest IDs
	sum      uint64  // of report.IDs IDs
}

// read calls f for each ID from low to high: there must be n.
func (c *checker) read(ctx context.Context, stage Stage, low, high, n int64, f func(id int64)) error {
	err := c.j.each(ctx, low, high, c.progressOf(stage), func(_ Place, id int64) {
		n--
		f(id)
	})
	if err == nil && n != 0 {
		err = fmt.Errorf("%w: of the IDs from %d to %d %d are missing", ErrDamaged, low, high, n)
	}
	return err
}

// progressOf returns the function that each calls with how many chunks it has done with.
func (c *checker) progressOf(stage Stage) func(chunks int) {
	return func(chunks int) {
		done := c.report.IDs
		if stage != StageSort {
			done = c.ids * int64(chunks) / int64(len(c.j.chunks))
		}
		c.progress(stage, done, c.ids)
	}
}

// compare compares the IDs from low to high, of which there are n. It counts how
// many are in each of equal parts of the range, and sorts as many parts together as
// there is room for. A part for which there isn't is compared likewise.
func (c *checker) compare(ctx context.Context, stage Stage, low, high, n int64) error {
	shift := max(0, bits.Len64(uint64(high)-uint64(low))-bits.Len(parts-1))
	part := func(id int64) uint64 { return (uint64(id) - uint64(low)) >> shift }
	counts := make([]int64, part(high)+1)
	err := c.read(ctx, stage, low, high, n, func(id int64) { counts[part(id)]++ })
	var next int
	for first := 0; err == nil && first < len(counts); first = next {
		n := counts[first]
		for next = first + 1; next < len(counts) && n+counts[next] <= int64(len(c.room)); next++ {
			n += counts[next]
		}
		from, to := low+int64(first)<<shift, high
		if next < len(counts) {
			to = low + int64(next)<<shift - 1
		}
		switch {
		case n == 0:
		case from == to:
			c.add(from, n)
		case n <= int64(len(c.room)):
			err = c.sort(ctx, from, to, shift, counts[first:next], c.room[:n])
		default:
			err = c.compare(ctx, StageSort, from, to, n)
		}
		c.progress(StageSort, c.report.IDs, c.ids)
	}
	return err
}

// sort sorts the IDs from low to high in room, which is for exactly that many. Each
// part has its place there: many small parts are sorted sooner than a large one.
func (c *checker) sort(ctx context.Context, low, high int64, shift int, counts, room []int64) error {
	ends, end := counts, int64(0)
	for i, n := range counts {
		end += n
		ends[i] = end
	}
	err := c.read(ctx, StageSort, low, high, end, func(id int64) {
		if i := (uint64(id) - uint64(low)) >> shift; ends[i] > 0 {
			ends[i]--
			room[ends[i]] = id
		}
	})
	if err != nil {
		return err
	}
	for _, start := range slices.Backward(ends) { // the ends have moved to the starts
		slices.Sort(room[start:end])
		end = start
	}
	var next int
	for i := 0; i < len(room); i = next {
		for next = i + 1; next < len(room) && room[next] == room[i]; next++ {
		}
		c.add(room[i], int64(next-i))
	}
	return nil
}

// add notes that an ID, larger than those before, came some times.
func (c *checker) add(id, times int64) {
	r := &c.report
	r.IDs += times
	c.sum += uint64(id) * uint64(times)
	if times == 1 {
		return
	}
	r.Repeated++
	r.Surplus += times - 1
	if len(r.First) < MaxFirst {
		r.First = append(r.First, Duplicate{ID: id, Times: times})
	}
}

// locate finds the places of the repeated IDs.
func (c *checker) locate(ctx context.Context, first []Duplicate) error {
	if len(first) == 0 {
		return nil
	}
	low, high := first[0].ID, first[len(first)-1].ID // they grow
	found := make([]int64, len(first))
	err := c.j.each(ctx, low, high, c.progressOf(StageLocate), func(p Place, id int64) {
		i, ok := slices.BinarySearchFunc(first, id, func(d Duplicate, id int64) int { return cmp.Compare(d.ID, id) })
		if ok {
			first[i].note(p, found[i])
			found[i]++
		}
	})
	for i, d := range first {
		if err == nil && found[i] != d.Times {
			err = fmt.Errorf("%w: ID %d came %d times, and the journal has it %d times", ErrDamaged, d.ID, d.Times, found[i])
		}
	}
	return err
}

// note keeps the two earliest places; seen is how many there were before.
func (d *Duplicate) note(p Place, seen int64) {
	switch {
	case seen == 0 || p.At < d.Places[0].At:
		d.Places[1] = d.Places[0]
		d.Places[0] = p
	case seen == 1 || p.At < d.Places[1].At:
		d.Places[1] = p
	}
}
