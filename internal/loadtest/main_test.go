package loadtest_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(smallDiskDir); dir != "" {
		os.Exit(loadOnSmallDisk(dir))
	}
	goleak.VerifyTestMain(m)
}
