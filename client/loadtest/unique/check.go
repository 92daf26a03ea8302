package unique

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Check compares all IDs with each other. It may be called once, when no lane is
// in use any more; it returns ErrChecked otherwise, ErrStorage or ErrDamaged
// where no verdict is possible, and ctx's error when it was ended early. progress
// may be nil.
func (j *Journal) Check(ctx context.Context, progress Progress) (Report, error) {
	if progress == nil {
		progress = func(Stage, int64, int64) {}
	}
	ids, sum, err := j.finish()
	if err != nil {
		return Report{}, err
	}
	c := &checker{j: j, progress: progress, ids: ids, sum: sum}
	report, err := c.check(ctx)
	if closed := c.close(); err == nil {
		err = closed
	}
	if err != nil {
		return Report{}, err
	}
	report.Bytes = j.st.peak.Load()
	return report, nil
}

// checker is one check.
type checker struct {
	j        *Journal
	progress Progress
	ids      int64  // added
	sum      uint64 // of them

	keys, scratch []uint64 // being collected, and room to sort them
	// runs by how often they were merged: at fan-in of one level they become
	// one of the next, so that few files are open.
	levels [][]run
}

func (c *checker) check(ctx context.Context) (Report, error) {
	if c.ids == 0 {
		return Report{}, nil
	}
	if err := c.sort(ctx); err != nil {
		return Report{}, err
	}
	report, err := c.compare(ctx)
	if err != nil || len(report.First) == 0 {
		return report, err
	}
	return report, c.locate(ctx, report.First)
}

func (c *checker) close() error {
	var errs []error
	for _, level := range c.levels {
		errs = append(errs, closeRuns(level))
	}
	c.levels = nil
	return errors.Join(errs...)
}

func closeRuns(runs []run) error {
	var errs []error
	for _, r := range runs {
		errs = append(errs, r.spool.close())
	}
	return errors.Join(errs...)
}

// sort reads the journal into sorted runs; the last piece stays in memory.
func (c *checker) sort(ctx context.Context) error {
	capacity := int(min(int64(c.j.opts.capacity()), c.ids))
	c.keys = make([]uint64, 0, capacity)
	c.scratch = make([]uint64, capacity)
	var ids []int64
	err := c.j.each(ctx, c.ids, func(chunk []byte, done int64) error {
		c.progress(StageSort, done, c.ids)
		d := newDecoder(chunk)
		for more := true; more; {
			_, ids, more = d.entry(ids[:0])
			for rest := ids; len(rest) > 0; {
				n := min(len(rest), capacity-len(c.keys))
				for _, id := range rest[:n] {
					c.keys = append(c.keys, keyOf(id))
				}
				if rest = rest[n:]; len(rest) == 0 {
					break
				}
				if err := c.spill(ctx); err != nil {
					return err
				}
			}
		}
		if d.bad {
			return fmt.Errorf("%w: a chunk that can't be decoded", ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.keys, _ = sortKeys(c.keys, c.scratch)
	c.scratch = nil
	return nil
}

// spill writes the collected keys as a run.
func (c *checker) spill(ctx context.Context) error {
	sorted, rest := sortKeys(c.keys, c.scratch)
	c.keys, c.scratch = sorted[:0], rest[:cap(sorted)]
	return c.addRun(ctx, 0, []*source{memorySource(sorted)})
}

// addRun merges sources into a run of a level, and that level into the next one
// when it is full.
func (c *checker) addRun(ctx context.Context, level int, sources []*source) error {
	w, err := c.j.st.newRun(c.j.table)
	if err != nil {
		return err
	}
	if level == len(c.levels) {
		c.levels = append(c.levels, nil)
	}
	err = merge(ctx, sources, w.add)
	r, closed := w.close()
	c.levels[level] = append(c.levels[level], r)
	if err = errors.Join(err, closed); err != nil {
		return err
	}
	if len(c.levels[level]) < c.j.opts.fanIn() {
		return nil
	}
	full := c.levels[level]
	if err := c.addRun(ctx, level+1, c.sources(full)); err != nil {
		return err
	}
	c.levels[level] = nil
	return closeRuns(full)
}

func (c *checker) sources(runs []run) []*source {
	list := make([]*source, len(runs))
	for i, r := range runs {
		list[i] = r.source(c.j.table)
	}
	return list
}

// compare merges everything and counts what is equal (U4).
func (c *checker) compare(ctx context.Context) (Report, error) {
	sources := c.sources(slices.Concat(c.levels...))
	merging := len(sources) > 0
	sources = append(sources, memorySource(c.keys))
	c.keys = nil
	var t tally
	var told int64
	err := merge(ctx, sources, func(keys []uint64) error {
		t.add(keys)
		if done := t.report.IDs; merging && done-told >= 1<<20 {
			told = done
			c.progress(StageMerge, done, c.ids)
		}
		return nil
	})
	switch {
	case err != nil:
		return Report{}, err
	case t.fell || t.report.IDs != c.ids || t.sum != c.sum:
		return Report{}, fmt.Errorf("%w: %d IDs of sum %d were added, and %d of sum %d were merged", ErrDamaged, c.ids, c.sum, t.report.IDs, t.sum)
	}
	return t.report, nil
}

// locate finds the places of the repeated IDs.
func (c *checker) locate(ctx context.Context, first []Duplicate) error {
	low, high := first[0].ID, first[len(first)-1].ID // they grow
	found := make([]int64, len(first))
	var ids []int64
	err := c.j.each(ctx, c.ids, func(chunk []byte, done int64) error {
		c.progress(StageLocate, done, c.ids)
		d := newDecoder(chunk)
		for more := true; more; {
			var p Place
			p, ids, more = d.entry(ids[:0])
			for _, id := range ids {
				if id < low || id > high {
					continue
				}
				i, ok := slices.BinarySearchFunc(first, id, func(d Duplicate, id int64) int { return cmp.Compare(d.ID, id) })
				if ok {
					first[i].note(p, found[i])
					found[i]++
				}
			}
		}
		return nil
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
