package server

import (
	"bytes"
	"io"
	"runtime"
	"strings"
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
		s.handle(ctx)
		answered.Add(1)
	}
	require.LessOrEqual(t, <-seen, int64(2*resp.CommandsATurn+1))

	client := s.newRedisClient(newConn(t).State.(*client), 1)
	failed := func() (n uint64) {
		s.RedisCounts(func(_ string, count uint64) bool { n += count; return true })
		return n
	}
	client.session = resp.New(struct {
		io.Reader
		io.Writer
	}{strings.NewReader(strings.Repeat("*2\r\n$4\r\nINCR\r\n$9\r\nnosuchtag\r\n", 100)), new(bytes.Buffer)}, client)
	seen = other(func() int64 { return int64(failed()) })
	require.ErrorIs(t, client.session.Serve(), io.EOF)
	require.EqualValues(t, 100, failed())
	require.LessOrEqual(t, <-seen, int64(2*resp.CommandsATurn+1))
}
