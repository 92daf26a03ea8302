package zksession

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newWire returns a wire over raw, with 900 ms for the greeting.
func newWire(t testing.TB, raw net.Conn) *wire {
	t.Helper()
	n := newNotifier(func(Event) {})
	t.Cleanup(n.close)
	g := newGate(true)
	d := newDialer(short(time.Minute, "a:1"), newHosts([]string{"a:1"}, g), g, n)
	t.Cleanup(d.close)
	return &wire{Conn: raw, raw: raw, dialer: d, server: "a:1", patience: 900 * time.Millisecond}
}

// TestEachDeadlineIsBounded: go-zookeeper asks for none, or for ten times too long
// (zksession.S6).
func TestEachDeadlineIsBounded(t *testing.T) {
	raw := &script{data: greeting(6000, 7), piece: 100}
	w := newWire(t, raw)
	for name, set := range map[string]func(time.Time) error{
		"read": w.SetReadDeadline, "write": w.SetWriteDeadline, "both": w.SetDeadline,
	} {
		require.NoError(t, set(time.Time{}), name)
		require.LessOrEqual(t, time.Until(raw.deadline), w.patience, name)
		require.False(t, raw.deadline.IsZero(), name)
	}
	_, err := w.Read(make([]byte, 4))
	require.NoError(t, err)
	for name, set := range map[string]func(time.Time) error{
		"read": w.SetReadDeadline, "write": w.SetWriteDeadline, "both": w.SetDeadline,
	} {
		for _, asked := range []time.Time{{}, time.Now().Add(time.Hour)} {
			require.NoError(t, set(asked), name)
			require.LessOrEqual(t, time.Until(raw.deadline), 4*time.Second, name)
			require.Greater(t, time.Until(raw.deadline), w.patience, name)
		}
		soon := time.Now().Add(time.Millisecond)
		require.NoError(t, set(soon), name)
		require.Equal(t, soon, raw.deadline, name)
	}
}

// TestWhatTheSessionSawIsForgotten only where the server hung up on us, and the
// session is over (zksession.S7); and nothing but that.
func TestWhatTheSessionSawIsForgotten(t *testing.T) {
	request := bytes.Repeat([]byte{0xaa}, 48)
	startsOver := bytes.Clone(request)
	clear(startsOver[8:16])
	for name, test := range map[string]struct {
		refused bool
		contact time.Duration // ago
		want    []byte
	}{
		"hung up, and over":     {true, 2 * time.Minute, startsOver},
		"hung up, and not over": {true, 30 * time.Second, request},
		"over":                  {false, 2 * time.Minute, request},
	} {
		t.Run(name, func(t *testing.T) {
			raw := &script{}
			w := newWire(t, raw)
			w.dialer.contact = time.Now().Add(-test.contact)
			if test.refused {
				w.dialer.hungUp("a:1")
			}
			w.dialer.hungUp("b:1")
			asked := bytes.Clone(request)
			n, err := w.Write(asked)
			require.NoError(t, err)
			require.Equal(t, len(request), n)
			require.Equal(t, test.want, raw.sent)
			require.Equal(t, request, asked, "the buffer isn't ours")
			_, err = w.Write(request)
			require.NoError(t, err)
			require.Equal(t, request, raw.sent[len(request):], "only the first request is for a session")
		})
	}
}

// FuzzWire: whatever a server sends, in whatever pieces, what comes out is either
// that, whole, or an error; and no answer is out of bounds.
func FuzzWire(f *testing.F) {
	f.Add(greeting(1000, 7), uint8(4))
	f.Add(append(greeting(1000, 7), answer(1, 0)...), uint8(1))
	f.Add(append(greeting(1000, 0), 0, 0, 0, 3), uint8(200))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), uint8(7))
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		w := newWire(t, &script{data: sent, piece: int(piece)%16 + 1})
		var got []byte
		buf := make([]byte, 64)
		for {
			n, err := w.Read(buf)
			got = append(got, buf[:n]...)
			if err != nil {
				break
			}
		}
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
		if w.dialer.session() != 0 {
			require.GreaterOrEqual(t, w.dialer.timeout(), 10*time.Millisecond)
		}
	})
}

// script is a connection that delivers data in pieces, and keeps what it is given.
type script struct {
	net.Conn
	data     []byte
	piece    int
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

func (s *script) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.data[:min(s.piece, len(s.data))])
	s.data = s.data[n:]
	return n, nil
}

func (*script) Close() error { return nil }
