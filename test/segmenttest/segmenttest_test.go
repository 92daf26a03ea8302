package segmenttest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
	"github.com/leafd/leafd/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite that the real one passes.
func TestGuard(t *testing.T) {
	storetest.RunGuard(t, func(*testing.T) storetest.GuardFixture {
		guard := segmenttest.NewGuard()
		var guards []*segmenttest.Guard
		reconnect := func(g *segmenttest.Guard) {
			g.Break()
			g.Connect()
		}
		return storetest.GuardFixture{
			Open: func(testing.TB) segment.Guard {
				guards = append(guards, guard.Beside())
				return guards[len(guards)-1]
			},
			Reconnect: func(_ testing.TB, g segment.Guard) { reconnect(g.(*segmenttest.Guard)) },
			Snapshot: func(testing.TB) func(testing.TB) {
				restore := guard.Snapshot()
				return func(testing.TB) {
					restore()
					for _, g := range guards {
						reconnect(g)
					}
				}
			},
			WriteRoot: func(_ testing.TB, loss bool) {
				if guard.WriteRoot(); loss {
					guard.NoteLoss()
				}
			},
			Damage: func(_ testing.TB, tag string) { guard.Damage(tag, true) },
			Refuse: func(_ testing.TB, tag string) { guard.Refuse(tag, true) },
		}
	})
}

// What fetches meet of the faults, one after another; max_id after each, and how long it took.
func TestFaults(t *testing.T) {
	boom, op := errors.New("boom"), segmenttest.OpCommit
	give := func(err error) segmenttest.Hook {
		return func(_ context.Context, now segmenttest.Op, _ []string) error {
			if now == op {
				return err
			}
			return nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		store := segmenttest.NewStore()
		store.Set("order", 0, 10)
		at := store
		for i, step := range []struct {
			do    func()
			want  error
			maxID int64
			took  time.Duration
		}{
			{func() { store.FailNext(1, boom, segmenttest.OpMove) }, boom, 0, 0},
			{func() { store.Fail(boom, op) }, boom, 0, 0},
			{func() { store.Fail(nil); store.After(give(boom)) }, boom, 10, 0},
			{func() { store.After(nil); store.Before(give(segmenttest.ErrLate)) }, segmenttest.ErrLate, 10, 0},
			{func() { store.Before(nil) }, segment.ErrLocked, 10, time.Second},
			{store.Deliver, nil, 30, 0},
			{func() { time.AfterFunc(time.Minute, store.Hang(segmenttest.OpBegin)) }, segment.ErrStore, 30, 50 * time.Second},
			{func() {}, nil, 40, 10 * time.Second},
			{func() { store.Delay(time.Second) }, nil, 50, 3 * time.Second},
			{func() { store.Delay(0); at = store.Copy("b"); store.ReadOnly(true) }, segment.ErrReadOnly, 50, 0},
			{func() { store.Use(at) }, nil, 60, 0},
			{func() { at.Column(60) }, segment.ErrBadRow, 60, 0},
			{func() { store.Fail(segmenttest.ErrAway) }, segment.ErrStore, 60, 0},
		} {
			step.do()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			require.ErrorIs(t, move(ctx, store), step.want, i)
			cancel()
			require.Equal(t, step.took, time.Since(begun), i)
			row, _ := at.Row("order")
			require.Equal(t, step.maxID, row.MaxID, i)
		}
		require.Equal(t, []int{13, 13, 7, 2}, []int{store.Fetches("order"), store.Calls(segmenttest.OpBegin), store.Calls(op), store.Calls(segmenttest.OpRollback)})
		at.Twice("order")
		require.ErrorContains(t, move(t.Context(), at), "another than was read")
	})
	guard := segmenttest.NewGuard()
	opened, err := guard.Open(t.Context())
	require.NoError(t, err)
	op = segmenttest.OpWrite
	guard.Before(give(segmenttest.ErrLate))
	require.ErrorIs(t, guard.Write(t.Context(), opened, []segment.HighMark{{Tag: "order", High: 5, Version: -1}}), segment.ErrGuardAway)
	require.Zero(t, guard.Mark("order").High)
	guard.Deliver()
	require.EqualValues(t, 5, guard.Mark("order").High)

	// Behind a multiplexer, where nothing is locked, the second of two finds another row than it read.
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	store.Unlock()
	first, err := store.Begin(t.Context(), []string{"order"})
	require.NoError(t, err)
	require.NoError(t, move(t.Context(), store.Beside()))
	require.Error(t, first.Move(t.Context(), []segment.Move{{Tag: "order", From: 0, To: 10}}))
}

// move fetches a range of "order".
func move(ctx context.Context, store *segmenttest.Store) error {
	tx, err := store.Begin(ctx, []string{"order"})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	row := tx.Rows()[0]
	if err := tx.Move(ctx, []segment.Move{{Tag: row.Tag, From: row.MaxID, To: row.MaxID + row.Step}}); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

func TestHighWater(t *testing.T) {
	storetest.RunHighWater(t, func(*testing.T) func(testing.TB) segment.HighWater {
		marks := segmenttest.NewHighWater()
		return func(testing.TB) segment.HighWater { return marks }
	})
}

func TestStore(t *testing.T) {
	fixture := func(*testing.T) storetest.Fixture {
		store := segmenttest.NewStore()
		return storetest.Fixture{Open: func(testing.TB) storetest.Store { return store.Beside() }, Table: prompt{store}}
	}
	storetest.Run(t, fixture)
	storetest.RunAdmin(t, fixture)
}

// prompt is storetest.Table: the store without leafd's checks.
type prompt struct{ *segmenttest.Store }

func (p prompt) Insert(_ context.Context, rows ...segment.Row) error {
	for _, row := range rows {
		if _, twice := p.Store.Row(row.Tag); twice {
			return errors.New("there is a row of " + row.Tag)
		}
		p.Set(row.Tag, row.MaxID, row.Step)
		p.Edit(row.Tag, func(r *segment.Row) { r.Description = row.Description })
	}
	return nil
}

func (p prompt) SetMaxID(_ context.Context, tag string, maxID int64) error {
	p.Edit(tag, func(r *segment.Row) { r.MaxID = maxID })
	return nil
}

func (p prompt) SetStep(_ context.Context, tag string, step int64) error {
	p.Edit(tag, func(r *segment.Row) { r.Step = step })
	return nil
}

func (p prompt) Row(_ context.Context, tag string) (maxID, step int64, err error) {
	row, there := p.Store.Row(tag)
	if !there {
		return 0, 0, errors.New("there is no row of " + tag)
	}
	return row.MaxID, row.Step, nil
}

func (p prompt) Clear(context.Context) error {
	p.Store.Clear()
	return nil
}
