package segmenttest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
	"github.com/leafd/leafd/test/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suites that the real ones pass.
func TestHighWater(t *testing.T) {
	storetest.RunHighWater(t, func(*testing.T) func(testing.TB) segment.HighWater {
		marks := segmenttest.NewHighWater()
		return func(testing.TB) segment.HighWater { return marks }
	})
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Fixture {
		store := segmenttest.NewStore()
		return storetest.Fixture{
			Open:  func(testing.TB) storetest.Store { return store.Beside() },
			Table: prompt{store},
		}
	})
}

// prompt is storetest.Table: the store without leafd's checks.
type prompt struct{ store *segmenttest.Store }

func (p prompt) Insert(_ context.Context, rows ...segment.Row) error {
	for _, row := range rows {
		if _, twice := p.store.Row(row.Tag); twice {
			return errors.New("there is a row of " + row.Tag)
		}
		p.store.Set(row.Tag, row.MaxID, row.Step)
		p.store.Edit(row.Tag, func(r *segment.Row) { r.Description = row.Description })
	}
	return nil
}

func (p prompt) SetMaxID(_ context.Context, tag string, maxID int64) error {
	return p.edit(tag, func(r *segment.Row) { r.MaxID = maxID })
}

func (p prompt) SetStep(_ context.Context, tag string, step int64) error {
	return p.edit(tag, func(r *segment.Row) { r.Step = step })
}

func (p prompt) edit(tag string, change func(*segment.Row)) error {
	if _, there := p.store.Row(tag); !there {
		return errors.New("there is no row of " + tag)
	}
	p.store.Edit(tag, change)
	return nil
}

func (p prompt) Row(_ context.Context, tag string) (maxID, step int64, err error) {
	row, there := p.store.Row(tag)
	if !there {
		return 0, 0, errors.New("there is no row of " + tag)
	}
	return row.MaxID, row.Step, nil
}

func (p prompt) Clear(context.Context) error {
	p.store.Clear()
	return nil
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	store := segmenttest.NewStore()
	store.Set("order", 0, 10)
	fetch := func(ctx context.Context) error { _, err := store.Fetch(ctx, "order", 1, 0); return err }
	maxID := func() int64 { row, _ := store.Row("order"); return row.MaxID }

	store.FailNext(1, boom)
	require.ErrorIs(t, fetch(t.Context()), boom)
	require.NoError(t, fetch(t.Context()))
	store.Fail(boom)
	require.ErrorIs(t, fetch(t.Context()), boom)
	store.Fail(nil)
	require.EqualValues(t, 10, maxID())

	store.After(func(context.Context, segmenttest.Op, string) error { return boom })
	require.ErrorIs(t, fetch(t.Context()), boom)
	require.EqualValues(t, 20, maxID(), "it took effect")
	store.After(nil)

	ctx, cancel := context.WithCancel(t.Context())
	release := store.Hang()
	done := make(chan error)
	go func() { done <- fetch(ctx) }()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	go func() { done <- fetch(t.Context()) }()
	release()
	require.NoError(t, <-done)
	require.EqualValues(t, 30, maxID())
}

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
			Reconnect: func(_ testing.TB, g segment.Guard) {
				fake, _ := g.(*segmenttest.Guard)
				reconnect(fake)
			},
			Snapshot: func(testing.TB) func(testing.TB) {
				restore := guard.Snapshot()
				return func(testing.TB) {
					restore()
					for _, g := range guards {
						reconnect(g)
					}
				}
			},
			Damage: func(_ testing.TB, tag string) { guard.Damage(tag, true) },
			Forget: func(_ testing.TB, tag string) { guard.Forget(tag) },
		}
	})
}
