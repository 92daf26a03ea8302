package zksession

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// fake is a server that does what a real one can't be made to do: it takes a
// session and answers pings, and leaves every request unanswered.
type fake struct {
	addr        string
	refuseAuth  atomic.Bool
	connections atomic.Int64
	requests    atomic.Int64 // unanswered
	code        atomic.Int32 // that requests are answered with; 0: they are not
}

// newFake returns a server that is gone with the test.
func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{}
	f.addr = listen(t, f.serve)
	return f
}

// listen calls serve with each connection, and returns the address.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				serve(conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait() // for connections that the test's session has closed
	})
	return listener.Addr().String()
}

// packet puts the length before the fields.
func packet(fields any) []byte {
	b, err := binary.Append(make([]byte, 4), binary.BigEndian, fields)
	if err != nil {
		panic(err)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// greeting is a server's first answer.
func greeting(millis uint32, session uint64) []byte {
	return packet(struct {
		Version, Millis uint32
		Session         uint64
		Length          uint32
		Password        [16]byte
		ReadOnly        bool
	}{Millis: millis, Session: session, Length: 16})
}

// answer is one without a result.
func answer(xid uint32, code int32) []byte {
	return packet(struct {
		Xid  uint32
		Zxid uint64
		Code int32
	}{xid, 1, code})
}

func readPacket(conn net.Conn) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	_, err := io.ReadFull(conn, body)
	return body, err
}

func (f *fake) serve(conn net.Conn) {
	f.connections.Add(1)
	hello, err := readPacket(conn)
	if err != nil {
		return
	}
	_, _ = conn.Write(greeting(binary.BigEndian.Uint32(hello[12:]), 7))
	for {
		request, err := readPacket(conn)
		if err != nil {
			return
		}
		const ping, setAuth, closeSession = 11, 100, 0xfffffff5
		xid := binary.BigEndian.Uint32(request)
		switch binary.BigEndian.Uint32(request[4:]) {
		case ping, closeSession:
			_, _ = conn.Write(answer(xid, 0))
		case setAuth:
			const authFailed = -115
			if f.refuseAuth.Load() {
				_, _ = conn.Write(answer(xid, authFailed))
				return
			}
			_, _ = conn.Write(answer(xid, 0))
		default:
			if code := f.code.Load(); code != 0 {
				_, _ = conn.Write(answer(xid, code))
				continue
			}
			f.requests.Add(1)
		}
	}
}
