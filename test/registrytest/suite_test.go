package registrytest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInMemory(t *testing.T) {
	registrytest.Run(t, true, func(t testing.TB) *registrytest.World {
		return registrytest.InMemory(t, clocktest.NewBubble(time.Unix(1_700_000_000, 0)))
	})
}
