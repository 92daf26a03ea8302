package registrytest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/clocktest"
	"github.com/leafd/leafd/test/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The clock passes by itself when it is slept on.
func TestInMemory(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) *registrytest.World {
		fake := clocktest.New(time.Unix(1_700_000_000, 0)).AutoAdvance()
		w := registrytest.InMemory(t, fake)
		w.Lease, w.Pass = time.Hour, fake.Advance
		return w
	})
}
