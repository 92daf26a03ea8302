package main

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStoppedBeforeItBegan: a child that a SIGTERM ends by itself left nothing unclean;
// any other end than 0 did.
func TestStoppedBeforeItBegan(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		clean        bool
	}{
		{"it takes no signal yet", "echo up; exec sleep 600", true},
		{"it fails as it stops", "trap 'exit 1' TERM; echo up; while :; do sleep 0.01; done", false},
		{"another signal ends it", "trap 'kill -KILL $$' TERM; echo up; while :; do sleep 0.01; done", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := startChild(exec.Command("bash", "-c", tc.script), &lines{w: io.Discard}, "child")
			require.NoError(t, err)
			require.Eventually(t, func() bool { return c.sawLine("up") }, time.Minute, time.Millisecond)
			c.terminate()
			err = c.await(time.Minute)
			if tc.clean {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "did not stop cleanly")
			}
		})
	}
}
