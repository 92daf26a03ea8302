package ids

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/big"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/resp"
	"github.com/leafd/leafd/snowflake"
)

// counter is a Snowflake that counts.
type counter struct {
	Snowflake
	last atomic.Int64
}

func (c *counter) NextAt(_ context.Context, _ time.Duration, most int) (first int64, n int, err error) {
	return c.last.Add(int64(most)), most, nil
}

// noTags is Segments without any tag.
type noTags struct{ Segments }

func (noTags) Known([]byte) bool                                   { return false }
func (noTags) Try([]byte, **segment.Tag, int) (first int64, n int) { return 0, 0 }
func (noTags) Next(context.Context, []byte) (int64, error)         { return 0, segment.ErrUnknownTag }

// played is a connection with what its client sends; what it is sent is dropped.
type played struct {
	net.Conn
	io.Reader
}

func (p *played) Read(b []byte) (int, error)     { return p.Reader.Read(b) }
func (*played) Write(b []byte) (int, error)      { return len(b), nil }
func (*played) Close() error                     { return nil }
func (*played) SetReadDeadline(time.Time) error  { return nil }
func (*played) SetWriteDeadline(time.Time) error { return nil }
func (*played) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*played) RemoteAddr() net.Addr             { return &net.TCPAddr{} }

// alone is a listener with one connection.
type alone struct {
	net.Listener
	nc net.Conn
}

func (a *alone) Accept() (net.Conn, error) { return a.nc, nil }
func (*alone) Addr() net.Addr              { return &net.TCPAddr{} }

func connConfig() conn.Config {
	return conn.Config{Base: context.Background(), Registry: prometheus.NewRegistry(), MaxConns: 10, IdleTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour}
}

// acceptedID returns nc as a listener accepts it.
func acceptedID(t *testing.T, nc net.Conn) *conn.Conn {
	t.Helper()
	a, err := conn.NewAdmission(connConfig())
	require.NoError(t, err)
	l := a.Listen(&alone{nc: nc}, conn.Redis, conn.Serving{Client: NewClient})
	t.Cleanup(l.End)
	c, err := l.Accept()
	require.NoError(t, err)
	return conn.Of(c)
}

func newIDs(t *testing.T) *Server {
	t.Helper()
	cfg := Config{Config: connConfig(), Clock: clock.System(), MaxInflight: 100, QueueWait: time.Second}
	answers, err := reply.New(cfg.Registry, cfg.Log)
	require.NoError(t, err)
	s, err := New(cfg, answers, Live{})
	require.NoError(t, err)
	s.SetBackend(&Backend{Snowflake: &counter{}, Segments: noTags{}})
	return s
}

// unknownTags returns a client that sends n commands for a tag that there isn't, and what it is answered.
func unknownTags(t *testing.T, s *Server, n int) (*redisClient, *bytes.Reader, *bytes.Buffer) {
	t.Helper()
	commands, answers := bytes.NewReader(bytes.Repeat([]byte("*2\r\n$4\r\nINCR\r\n$9\r\nnosuchtag\r\n"), n)), new(bytes.Buffer)
	client := s.newRedisClient(acceptedID(t, &played{}).Client.(*client), 1)
	client.session = resp.New(struct {
		io.Reader
		io.Writer
	}{commands, answers}, client)
	return client, commands, answers
}

// What clients of the Redis protocol are refused with as often as they like allocates nothing.
func TestUnknownTagsAllocateNothing(t *testing.T) {
	client, commands, answers := unknownTags(t, newIDs(t), 100)
	allocs := testing.AllocsPerRun(100, func() {
		answers.Reset()
		_, _ = commands.Seek(0, io.SeekStart)
		require.ErrorIs(t, client.session.Serve(), io.EOF)
	})
	require.Equal(t, 100, bytes.Count(answers.Bytes(), []byte("-UNKNOWN_KEY no tag has this name\r\n")))
	require.Zero(t, allocs)
}

// On one processor another goroutine runs once 16 commands are answered, rarely after 32 and one.
func TestCommandsGiveWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := newIDs(t)
	failed := func() (n uint64) {
		s.RedisCounts(func(_ string, count uint64) bool { n += count; return true })
		return n
	}
	client, _, _ := unknownTags(t, s, 100)
	seen := make(chan uint64, 1)
	go func() { seen <- failed() }()
	require.ErrorIs(t, client.session.Serve(), io.EOF)
	require.EqualValues(t, 100, failed())
	require.LessOrEqual(t, <-seen, uint64(2*resp.CommandsATurn+1))
}

// FuzzDecodeID compares what is decoded with the layout's.
func FuzzDecodeID(f *testing.F) {
	for _, s := range []string{"0", "1", "-0", "-1", "+1", "007", "9223372036854775807", "9223372036854775808", "2124140238493188149", "1e3", "", " 1", "１", "0x10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		layout := snowflake.DefaultLayout()
		d, err := Decode(text, layout)
		n, isNumber := new(big.Int).SetString(text, 10)
		isNumber = isNumber && strings.Trim(text, "0123456789") == ""
		require.Equal(t, isNumber && n.IsInt64(), err == nil, "%q: %v", text, err)
		if err != nil {
			require.True(t, errors.Is(err, snowflake.ErrBadID) || reply.To(err).Code == "bad_id", err)
			return
		}
		require.Equal(t, n.String(), strconv.FormatInt(int64(d.ID), 10))
		parts, err := layout.Decode(n.Int64())
		require.NoError(t, err)
		require.Equal(t, []any{parts.Time, parts.Worker, parts.Sequence}, []any{d.Timestamp, d.Worker, d.Sequence})
	})
}

func TestBucketOf(t *testing.T) {
	last := len(latencyBounds) - 1
	for _, tc := range []struct {
		took time.Duration
		want int
	}{
		{0, 0},
		{-1, 0},
		{10 * time.Microsecond, 0},
		{10*time.Microsecond + 1, 1},
		{time.Millisecond, 6},
		{time.Millisecond + 1, 7},
		{10 * time.Second, last},
		{10*time.Second + 1, last + 1},
		{math.MaxInt64, last + 1},
	} {
		require.Equal(t, tc.want, bucketOf(tc.took), tc.took)
	}
	for i := range last {
		require.Less(t, latencyBounds[i], latencyBounds[i+1])
	}
}
