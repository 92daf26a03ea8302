package cachetest_test

import (
	"testing"

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
