package registrytest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/clock/clocktest"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/worker/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modelWorld is a Model with a clock that passes by itself when it is slept on.
type modelWorld struct {
	m    *registrytest.Model
	fake *clocktest.Fake
	clk  *registrytest.Clock
}

func newModelWorld(testing.TB) registrytest.World {
	fake := clocktest.New(time.Unix(1_700_000_000, 0)).AutoAdvance()
	clk := &registrytest.Clock{Clock: fake}
	return &modelWorld{m: registrytest.NewModel(clk), fake: fake, clk: clk}
}

func (w *modelWorld) Open(t testing.TB, node, address string, opts registrytest.Options) worker.Registry {
	r := w.m.Open(node, address, opts)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func (w *modelWorld) Directory(testing.TB) worker.Directory        { return w.m.Directory() }
func (w *modelWorld) Clock() *registrytest.Clock                   { return w.clk }
func (w *modelWorld) Pass(_ testing.TB, d time.Duration)           { w.fake.Advance(d) }
func (w *modelWorld) Kill(_ testing.TB, r worker.Registry)         { r.(*registrytest.Member).Kill() }
func (w *modelWorld) Init(_ testing.TB, layout snowflake.Layout)   { w.m.Init(layout) }
func (w *modelWorld) OpenCluster(testing.TB)                       { w.m.OpenCluster() }
func (w *modelWorld) Wipe(testing.TB)                              { w.m.Wipe() }
func (w *modelWorld) LoseEntries(testing.TB)                       { w.m.LoseEntries() }
func (w *modelWorld) Plant(_ testing.TB, e worker.Entry)           { w.m.Plant(e) }
func (w *modelWorld) PlantLive(_ testing.TB, p worker.Peer)        { w.m.PlantLive(p) }
func (w *modelWorld) Rewrite(_ testing.TB, id int64, owner string) { w.m.Rewrite(id, owner) }
func (w *modelWorld) Remove(_ testing.TB, id int64)                { w.m.Remove(id) }
func (w *modelWorld) Lease() time.Duration                         { return time.Hour }
func (w *modelWorld) Expire(_ testing.TB, _ worker.Registry, node string) {
	w.m.Expire(node)
}

func (w *modelWorld) LoseAnswer(_ testing.TB, r worker.Registry, n int, done bool) {
	r.(*registrytest.Member).LoseAnswer(n, done)
}

func TestModel(t *testing.T) { registrytest.Run(t, newModelWorld) }

func TestModelDown(t *testing.T) {
	w := newModelWorld(t).(*modelWorld)
	w.m.Init(snowflake.DefaultLayout())
	r := w.m.Open("a", "10.0.0.5:8080", registrytest.Options{})
	self := worker.Record{Node: "a", WorkerID: worker.NoWorkerID, Owner: "me"}
	_, err := r.Look(t.Context(), self)
	require.NoError(t, err)
	rec, err := r.Claim(t.Context(), self, worker.DefaultLease)
	require.NoError(t, err)
	w.m.Down()
	_, err = r.Look(t.Context(), self)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	_, err = r.Claim(t.Context(), self, worker.DefaultLease)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	_, err = r.Report(t.Context(), rec, true)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	_, err = r.Peers(t.Context())
	require.ErrorIs(t, err, worker.ErrUnreachable)
	_, err = w.m.Directory().Entries(t.Context())
	require.ErrorIs(t, err, worker.ErrUnreachable)
	_, err = w.m.Directory().Release(t.Context(), 0, true)
	require.ErrorIs(t, err, worker.ErrUnreachable)
	w.m.Up()
	_, err = r.Report(t.Context(), rec, true)
	require.NoError(t, err)
}
