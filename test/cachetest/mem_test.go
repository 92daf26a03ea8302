package cachetest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/cachetest"
	"github.com/leafd/leafd/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMemConforms(t *testing.T) {
	cachetest.Run(t, func(*testing.T) (worker.Cache, func() worker.Cache) {
		m := &cachetest.Mem{}
		return m, func() worker.Cache { return m }
	})
}

func TestMemFailsAsTold(t *testing.T) {
	boom := errors.New("boom")
	old, next := cachetest.Example(1700000000000), cachetest.Example(1700000003000)
	m := &cachetest.Mem{}
	m.Set(old)

	m.FailSave(boom)
	require.ErrorIs(t, m.Save(next), boom)
	got, err := m.Load()
	require.NoError(t, err)
	require.Equal(t, old, got)
	require.Empty(t, m.Saves())

	m.FailSave(nil)
	m.FailAfterSave(boom)
	require.ErrorIs(t, m.Save(next), boom)
	got, err = m.Load()
	require.NoError(t, err)
	require.Equal(t, next, got)
	require.Empty(t, m.Saves())

	m.FailAfterSave(nil)
	require.NoError(t, m.Save(old))
	require.Equal(t, []worker.Record{old}, m.Saves())

	m.FailLoad(worker.ErrDamaged)
	_, err = m.Load()
	require.ErrorIs(t, err, worker.ErrDamaged)
	m.FailLoad(nil)
	_, err = m.Load()
	require.NoError(t, err)
}

func TestMemBlocksUntilReleased(t *testing.T) {
	m := &cachetest.Mem{}
	hold := m.Block()
	done := make(chan error, 1)
	go func() { done <- m.Save(cachetest.Example(1700000000000)) }()
	<-hold.Entered()
	_, err := m.Load()
	require.ErrorIs(t, err, worker.ErrNoRecord, "a Save that waits has recorded nothing")
	require.Empty(t, done)
	hold.Release()
	hold.Release()
	require.NoError(t, <-done)
	require.NoError(t, m.Save(cachetest.Example(1700000000001)), "later ones go through")
	require.Len(t, m.Saves(), 2)
}
