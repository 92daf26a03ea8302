package registrytest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
)

// Survivors report, others that had a worker ID start, and newcomers too, all at the same moment:
// each that has a worker ID keeps it.
func testDataLostAll(t *testing.T, w *World) {
	const n = 4
	var run, down, late []*daemon
	for i := range n {
		run = append(run, fresh(t, w, fmt.Sprintf("run%d", i), Options{}).running())
		down = append(down, fresh(t, w, fmt.Sprintf("down%d", i), Options{}).running())
		late = append(late, fresh(t, w, fmt.Sprintf("newcomer%d", i), Options{}))
	}
	had := map[*daemon]int64{}
	for _, d := range run {
		require.NoError(t, d.report())
		had[d] = d.ID()
	}
	for _, d := range down {
		require.NoError(t, d.report())
		had[d] = d.ID()
		d.stop()
	}
	w.Wipe()
	back := make(chan struct{})
	for i, d := range late { // they wait until the operator opens it, once all others are back
		if i == 0 {
			d.when(worker.EventNoCluster, func() {
				go func() {
					<-back
					w.OpenCluster(Threshold)
				}()
			})
		}
	}
	errs := make(chan []error, 1)
	go func() { errs <- together(t, late) }()
	for i, err := range together(t, down) {
		require.NoError(t, err, i)
	}
	for _, d := range append(run, down...) {
		require.Eventually(t, func() bool { return d.Record().Losses > 0 && d.Registry() == nil }, patience, time.Millisecond)
		require.Equal(t, had[d], d.ID())
	}
	close(back)
	for i, err := range <-errs {
		require.NoError(t, err, i)
	}
	requireOneEach(t, w, append(append(run, down...), late...))
}

// settles-first: what settles, by the times of the root and of the longest session in it.
func testSettling(t *testing.T, w *World) {
	opts := Options{SessionTimeout: 40 * time.Second}
	const settles = 40*time.Second + 10*time.Second
	took := func(d *daemon) time.Duration {
		t.Helper()
		began := w.Now()
		d.running()
		return w.Now().Sub(began)
	}
	d := fresh(t, w, "a", opts)
	require.Zero(t, took(d), "a new root")
	d.stop()
	require.Zero(t, took(d), "its own")
	time.Sleep(time.Minute + time.Second)
	other := fresh(t, w, "b", Options{})
	require.Equal(t, settles, took(other), "the longest session that any was granted")
	d.stop()
	w.Remove(0)
	require.Equal(t, settles, took(d), "what is put back")
	require.Equal(t, int64(1), d.Record().Losses)
	d.stop()
	_, err := w.Directory().Recover(patient(t))
	require.NoError(t, err)
	require.Equal(t, settles, took(d), "what resumes after another loss")
	require.Equal(t, int64(2), d.Record().Losses)
	d.stop()
	require.Zero(t, took(d), "once")

	// A start that is stopped while it settles has not got over the loss.
	d.stop()
	_, err = w.Directory().Recover(patient(t))
	require.NoError(t, err)
	require.ErrorContains(t, d.until(worker.EventSettling), "is claimed, and not used for")
	require.Equal(t, int64(2), d.record().Losses)
	require.Equal(t, settles, took(d))
	require.Equal(t, int64(3), d.Record().Losses)

	// A backup that is put back twice counts as many losses each time, and a limit that stands for longer
	// than the lease shows none: it is another loss all the same.
	other.stop()
	d.stop()
	d.cfg.Lease = time.Hour
	d.running()
	restore := w.Backup()
	w.Recover()
	require.NoError(t, d.report())
	require.NoError(t, d.report())
	require.Equal(t, int64(4), d.record().Losses)
	d.crash()
	restore()
	w.Recover()
	const watched = 4 * time.Second // the node of the life before
	require.Equal(t, watched+settles, took(d), "the second time")
	require.Equal(t, int64(4), d.Record().Losses)
}

// A piece that has ended is not put back: its record notes the loss, and forgets the worker ID.
func testDataLostLate(t *testing.T, w *World) {
	d := fresh(t, w, "a", Options{}).running()
	require.NoError(t, d.report())
	d.stop()
	limit := d.record().Limit
	time.Sleep(limit.Sub(w.Now()) - 2*Threshold)
	w.Wipe()
	err := d.until(worker.EventNoCluster)
	require.ErrorIs(t, err, worker.ErrNoCluster)
	require.Equal(t, []any{1, 1}, []any{d.told(worker.EventDataLost), d.told(worker.EventRemoved)})
	r := d.record()
	require.Equal(t, []any{int64(worker.NoWorkerID), int64(1)}, []any{r.WorkerID, r.Losses})
	require.Empty(t, entries(t, w))
	w.OpenCluster(Threshold)
	require.Greater(t, d.running().Record().Floor, limit, "any worker ID that it gets begins at the root's floor")
}
