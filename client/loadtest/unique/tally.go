package unique

// tally counts what comes out of the merge.
type tally struct {
	report   Report
	sum      uint64 // of the IDs, modulo 2^64
	before   uint64 // the last key
	fell     bool   // a key was less than the one before
	repeated uint64 // the last key that came again; report.Repeated > 0
}

// add counts keys, which follow on those before.
func (t *tally) add(keys []uint64) {
	before, sum := t.before, t.sum
	for i, k := range keys {
		sum += uint64(idOf(k))
		if k <= before && (i > 0 || t.report.IDs > 0) {
			t.again(k, before)
		}
		before = k
	}
	t.before, t.sum = before, sum
	t.report.IDs += int64(len(keys))
}

// again counts a key that doesn't exceed the one before.
func (t *tally) again(k, before uint64) {
	if k < before {
		t.fell = true
		return
	}
	r := &t.report
	r.Surplus++
	id := idOf(k)
	if r.Repeated > 0 && t.repeated == k {
		if last := len(r.First) - 1; r.First[last].ID == id {
			r.First[last].Times++
		}
		return
	}
	r.Repeated++
	t.repeated = k
	if len(r.First) < MaxFirst {
		r.First = append(r.First, Duplicate{ID: id, Times: 2})
	}
}
