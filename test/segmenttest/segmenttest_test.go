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

// What comes late is an error, and done when it is delivered.
func TestLate(t *testing.T) {
	store, guard := segmenttest.NewStore(), segmenttest.NewGuard()
	store.Set("order", 0, 10)
	late := func(at segmenttest.Op) segmenttest.Hook {
		return func(_ context.Context, op segmenttest.Op, _ []string) error {
			if op == at {
				return segmenttest.ErrLate
			}
			return nil
		}
	}
	store.Before(late(segmenttest.OpCommit))
	_, err := storetest.Fetch(t.Context(), store, "order", 10, 0)
	require.ErrorIs(t, err, segmenttest.ErrLate)
	row, _ := store.Row("order")
	require.Zero(t, row.MaxID)
	store.Deliver()
	row, _ = store.Row("order")
	require.EqualValues(t, 10, row.MaxID)
	opened, err := guard.Open(t.Context())
	require.NoError(t, err)
	guard.Before(late(segmenttest.OpWrite))
	require.ErrorIs(t, guard.Write(t.Context(), opened, []segment.HighMark{{Tag: "order", High: 5, Version: -1}}), segment.ErrGuardAway)
	require.Zero(t, guard.Mark("order").High)
	guard.Deliver()
	require.EqualValues(t, 5, guard.Mark("order").High)
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
