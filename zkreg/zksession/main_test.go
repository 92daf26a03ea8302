package zksession

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/proctest"
	"github.com/leafd/leafd/test/zookeepertest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(zookeepertest.StopAfter(m), proctest.IgnoreProxies()...)
}

// patience is for a machine under load.
const patience = 60 * time.Second
