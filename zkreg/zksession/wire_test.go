package zksession

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

const greetingLimit = time.Minute

// newWire returns a wire over raw.
func newWire(t testing.TB, raw net.Conn) *wire {
	t.Helper()
	return &wire{Conn: raw, session: unopened(t, short(time.Minute, "a:1")), limit: greetingLimit}
}

// TestEachDeadlineIsBounded: go-zookeeper asks for none, or for ten times too long.
func TestEachDeadlineIsBounded(t *testing.T) {
	raw := &script{data: bytes.NewReader(append(greeting(600_000, 7), answer(1, 0)...))}
	w := newWire(t, raw)
	calls := map[string]func() error{
		"read": func() error {
			_, err := w.Read(make([]byte, 1<<10))
			return err
		},
		"write": func() error {
			_, err := w.Write([]byte("x"))
			return err
		},
	}
	within := func(call string, least, most time.Duration) {
		t.Helper()
		for _, asked := range []time.Time{{}, time.Now().Add(time.Hour)} {
			raw.deadline = time.Time{}
			require.NoError(t, w.SetReadDeadline(asked))
			require.NoError(t, w.SetWriteDeadline(asked))
			require.True(t, raw.deadline.IsZero())
		}
		require.NoError(t, calls[call]())
		require.LessOrEqual(t, time.Until(raw.deadline), most, call)
		require.Greater(t, time.Until(raw.deadline), least, call)
	}
	within("write", 0, greetingLimit)
	within("read", 0, greetingLimit)
	within("write", greetingLimit, 400*time.Second)
	within("read", greetingLimit, 400*time.Second)
}

// FuzzWire: a server sends any bytes, in any pieces: what comes out is either
// those, whole, or an error; and no answer is out of bounds.
func FuzzWire(f *testing.F) {
	f.Add(greeting(1000, 7), false)
	f.Add(append(greeting(1000, 7), answer(1, 0)...), true)
	f.Add(append(greeting(1000, 0), 0, 0, 0, 3), true)
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false)
	f.Fuzz(func(t *testing.T, sent []byte, slow bool) {
		raw := &script{data: bytes.NewReader(sent)}
		if slow {
			raw.data = iotest.OneByteReader(raw.data)
		}
		w := newWire(t, raw)
		got, _ := io.ReadAll(w) // the error that ends it doesn't matter
		require.True(t, bytes.HasPrefix(sent, got))
		rest := got
		for first := true; len(rest) >= 4; first = false {
			size := binary.BigEndian.Uint32(rest)
			if !first {
				require.GreaterOrEqual(t, size, uint32(minReply))
			}
			require.LessOrEqual(t, size, uint32(maxReply))
			rest = rest[4:]
			rest = rest[min(len(rest), int(size)):]
		}
		if w.session.Info().ID != 0 {
			require.GreaterOrEqual(t, w.session.Info().Timeout, 10*time.Millisecond)
		}
	})
}

// script is a connection that delivers data, and keeps what it is given.
type script struct {
	net.Conn
	data     io.Reader
	sent     []byte
	deadline time.Time
}

func (s *script) Write(p []byte) (int, error) {
	s.sent = append(s.sent, p...)
	return len(p), nil
}

func (s *script) SetDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func (s *script) SetReadDeadline(t time.Time) error { return s.SetDeadline(t) }

func (s *script) SetWriteDeadline(t time.Time) error { return s.SetDeadline(t) }

func (s *script) Read(p []byte) (int, error) { return s.data.Read(p) }

func (*script) Close() error { return nil }
