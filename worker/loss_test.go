package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/test/registrytest"
	"github.com/leafd/leafd/worker"
)

// settles-first: what settles, by the times of the root and of the longest session in it.
func TestWhatSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const settles = 40*time.Second + 2*worker.DefaultClockThreshold + time.Second
		d, other := newDaemon(), newDaemon()
		other.clk, other.cfg.Clock, other.cfg.Node = d.clk, d.clk, "10.0.0.6:8080"
		d.cfg.MaxWait, other.cfg.MaxWait = time.Hour, time.Hour
		model, _ := d.inCluster(t, registrytest.Options{})
		var registry worker.Registry
		starts := func(d *daemon, took time.Duration, why string) *worker.Worker {
			t.Helper()
			began := d.clk.Millis()
			registry = d.join(model, registrytest.Options{SessionTimeout: 40 * time.Second})
			w := d.start(t)
			require.Equal(t, took, d.clk.Millis().Sub(began), why)
			return w
		}
		d.stop(t, starts(d, 0, "a new root"))
		w := starts(d, 0, "its own")
		time.Sleep(time.Minute + time.Second)
		beside := starts(other, settles, "the longest session that any was granted")
		d.stop(t, w)
		model.Remove(0)
		w = starts(d, settles, "what is put back")
		require.Equal(t, int64(1), w.Record().Losses)
		d.stop(t, w)
		model.Recover()
		w = starts(d, settles, "what resumes after another loss")
		require.Equal(t, int64(2), w.Record().Losses)
		d.stop(t, w)
		d.stop(t, starts(d, 0, "once"))

		// A start that is stopped while it settles has not got over the loss.
		model.Recover()
		ctx, stop := context.WithCancel(t.Context())
		d.settlesAs(stop)
		d.join(model, registrytest.Options{})
		_, err := worker.Start(ctx, d.cfg)
		require.ErrorContains(t, err, "is claimed, and not used for")
		saved, err := d.cache.Load()
		require.NoError(t, err)
		require.Equal(t, int64(2), saved.Losses)
		w = starts(d, settles, "again")
		require.Equal(t, int64(3), w.Record().Losses)

		// A backup that is put back twice counts as many losses each time, and a limit that stands for longer
		// than the lease shows none: it is another loss all the same.
		other.stop(t, beside)
		d.stop(t, w)
		d.cfg.Lease = time.Hour
		w = starts(d, 0, "on its own")
		restore := model.Backup()
		model.Recover()
		ctx, kill := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- w.Run(ctx) }()
		d.report(t)
		d.report(t)
		require.Equal(t, int64(4), w.Record().Losses)
		model.Kill(registry)
		kill()
		require.NoError(t, <-over)
		restore()
		model.Recover()
		w = starts(d, 2*d.cfg.ReportInterval+settles, "the second time, once it has watched the node of the life before")
		require.Equal(t, int64(4), w.Record().Losses)
	})
}

// A piece that has ended is not put back: its record notes the loss, and forgets the worker ID.
func TestPieceThatHasEndedIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon()
		model, _ := d.inCluster(t, registrytest.Options{})
		w := d.start(t)
		d.stop(t, w)
		limit := w.Record().Limit
		d.clk.Suspend(limit.Sub(d.clk.Millis()) - 2*worker.DefaultClockThreshold)
		model.Wipe()
		d.join(model, registrytest.Options{})
		_, err := worker.Start(t.Context(), d.cfg)
		require.ErrorIs(t, err, worker.ErrNoCluster)
		require.Equal(t, []int{1, 1}, []int{d.events.count(worker.EventDataLost), d.events.count(worker.EventRemoved)})
		r, err := d.cache.Load()
		require.NoError(t, err)
		require.Equal(t, []int64{worker.NoWorkerID, 1}, []int64{r.WorkerID, r.Losses})
		require.Empty(t, entriesOf(t, model))
		model.OpenCluster(time.Millisecond)
		d.join(model, registrytest.Options{})
		require.Greater(t, d.start(t).Record().Floor, limit, "any worker ID that it gets begins at the root's floor")
	})
}
