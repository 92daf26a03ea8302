package goclient

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/client"
	"github.com/leafd/leafd/test/proctest"
)

// The trace of a caller is in the daemon's log where its request fails.
func TestTraceOfACallerIsLogged(t *testing.T) {
	t.Parallel()
	d := startLeafd(t, "--mysql", "leafd:x@tcp(127.0.0.1:1)/leaf") // which nothing answers
	c, err := client.New(client.Config{
		Addresses:   []string{d.URL},
		Traceparent: func(context.Context) string { return "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" },
	})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Snowflake("x").Next(within(t)) // the start is over
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := c.Segment("leaf-segment-test").Next(ctx)
		failed <- err
	}()
	require.Eventually(t, func() bool {
		return d.Logged(`"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"`, `"span_id":"00f067aa0ba902b7"`, `"code":"segment_store"`, "request refused") > 0
	}, proctest.Patience, 10*time.Millisecond)
	cancel()
	var refused *client.Error
	require.ErrorAs(t, <-failed, &refused)
	require.Equal(t, "segment_store", refused.Code)
}
