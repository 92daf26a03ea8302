package mariadbtest

import (
	"testing"

	"github.com/leafd/leafd/test/proctest"
)

func TestServerDiesWithTheTest(t *testing.T) {
	skipInShort(t)
	proctest.VerifyDiesWithTest(t, func(t testing.TB) int { return Start(t).process.Pid() })
}
