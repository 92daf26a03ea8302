package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/client"
)

// The trace of a caller of package client is in the daemon's log where its request fails.
func TestTraceOfACallerIsLogged(t *testing.T) {
	t.Parallel()
	l := newMachine(t).start("--mysql", "leafd:x@tcp(127.0.0.1:1)/leaf") // which nothing answers
	l.awaitStatus("/api/snowflake/get/x", http.StatusOK)
	c, err := client.New(client.Config{
		Addresses:   []string{l.url},
		Traceparent: func(context.Context) string { return "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" },
	})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed := make(chan error)
	go func() {
		_, err := c.Segment("leaf-segment-test").Next(ctx)
		failed <- err
	}()
	l.awaitLog(`"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"`, `"span_id":"00f067aa0ba902b7"`, `"code":"segment_unavailable"`, "request refused")
	cancel()
	var refused *client.Error
	require.ErrorAs(t, <-failed, &refused)
	require.Equal(t, "segment_unavailable", refused.Code)
}
