package server

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/server/resp"
)

// On one processor another goroutine runs once 16 requests are answered,
// however many are there; rarely after 32 and one, since at every 61st turn Go's scheduler looks first where a
// goroutine that gave way waits.
func TestPipelinesGiveWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := newServer(t)
	other := func(answered func() int64) (seen chan int64) {
		seen = make(chan int64, 1)
		go func() { seen <- answered() }()
		return seen
	}

	var answered atomic.Int64
	c := newConn(t)
	seen := other(answered.Load)
	for range 150 {
		ctx := newRequest(c, segmentPrefix+"nosuchtag", "")
		s.ids.Handle(ctx)
		answered.Add(1)
	}
	require.LessOrEqual(t, <-seen, int64(2*resp.CommandsATurn+1))
}
