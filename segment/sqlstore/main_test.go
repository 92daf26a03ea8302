package sqlstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leafd/leafd/internal/proctest"
	"github.com/leafd/leafd/segment/sqlstore/mariadbtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(mariadbtest.StopAfter(m), proctest.IgnoreProxies())
}
