package sqlstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(mariadbtest.StopAfter(m), proctest.IgnoreProxies()...)
}
