package unique_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(fullDiskDir); dir != "" {
		os.Exit(fillDisk(dir))
	}
	goleak.VerifyTestMain(m)
}
