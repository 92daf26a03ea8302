package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/views"
)

// tape is a connection that delivers data in pieces, and keeps what it is given.
type tape struct {
	net.Conn
	data  []byte
	piece int
	sent  bytes.Buffer
}

func (s *tape) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.data[:min(s.piece, len(s.data))])
	s.data = s.data[n:]
	return n, nil
}

func (s *tape) Write(p []byte) (int, error)    { return s.sent.Write(p) }
func (*tape) Close() error                     { return nil }
func (*tape) SetDeadline(time.Time) error      { return nil }
func (*tape) SetReadDeadline(time.Time) error  { return nil }
func (*tape) SetWriteDeadline(time.Time) error { return nil }
func (*tape) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (*tape) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }

// once is a listener with one connection.
type once struct {
	net.Listener
	nc net.Conn
}

func (o *once) Accept() (net.Conn, error) { return o.nc, nil }
func (*once) Addr() net.Addr              { return &net.TCPAddr{} }
func (*once) Close() error                { return nil }

// accepted returns nc as a listener of the public surface accepts it.
func accepted(t testing.TB, a *conn.Admission, nc net.Conn) *conn.Conn {
	t.Helper()
	l := a.Listen(&once{nc: nc}, conn.Public, conn.Serving{Client: ids.NewClient})
	t.Cleanup(l.End)
	c, err := l.Accept()
	require.NoError(t, err)
	return c.(*conn.Conn)
}

// quiet makes a server without a listener; its log goes nowhere.
func quiet(t testing.TB) *running {
	t.Helper()
	r := &running{t: t, last: new(atomic.Pointer[views.Backend]), flake: &fakeSnowflake{}}
	cfg := testConfig(io.Discard)
	cfg.Log = zerolog.Nop()
	var err error
	r.Server, err = New(cfg)
	require.NoError(t, err)
	return r
}

// renew gives the server a new table.
func (r *running) renew() {
	r.flake.calls.Store(0)
	r.table = newTable(segment.Row{Tag: "order", MaxID: 1, Step: 100}, segment.Row{Tag: "a/b", MaxID: 500, Step: 10})
	r.SetBackend(r.newBackend())
}

// FuzzConnection: regardless of what a client sends, what it gets is HTTP, IDs and errors
// as leafd writes them; each ID that was taken is in one of the answers.
func FuzzConnection(f *testing.F) {
	for _, s := range []string{
		"GET /api/snowflake/get/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET /api/segment/get/order?n=3 HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\nGET /api/segment/get/a%2Fb HTTP/1.1\r\n\r\n",
		"HEAD /api/segment/get/order HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.0\r\n\r\n", "POST /api/segments HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 20\r\n\r\n{\"tag\":\"x\",\"step\":1}",
		"PATCH /api/segments/order HTTP/1.1\r\nAuthorization: Bearer " + token + "\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{\"step\":5}\r\n0\r\n\r\n", "PATCH /api/segments/order HTTP/1.1\r\nAuthorization: Bearer " + token + "\r\nContent-Length: 30\r\n\r\n{\"step\":\"9223372036854775807\"}",
		"DELETE /api/segments/a%2Fb HTTP/1.1\r\nAuthorization: bearer " + token + "\r\n\r\n",
		"GET http://h/api/segment/get/order HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * HTTP/1.1\r\n\r\n", "GET /api/snowflake/get/x HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
		"GET /api/snowflake/get/x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", "GET /x HTTP/1.1\r\nX: a\r\n b\r\n\r\n", "\x16\x03\x01\x02\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /decodeSnowflakeId?snowflakeId=1 HTTP/1.1\r\n\r\n", "GET /api/segments?limit=1 HTTP/1.1\r\n\r\n", "GET /healthz HTTP/9.9\n\n", "GET /api/segment/get/order HTTP/1.1\r\nConnection: close\r\n\r\nGET /",
	} {
		f.Add([]byte(s), uint8(255))
		f.Add([]byte(s), uint8(1))
	}
	r := quiet(f)
	var methods []string
	serving := r.ids.HTTP(func(ctx *fasthttp.RequestCtx) {
		methods = append(methods, string(ctx.Method()))
		r.ids.Handle(ctx)
	}, true)
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		r.renew()
		methods = methods[:0]
		s := &tape{data: sent, piece: int(piece)*16 + 1}
		err := serving.ServeConn(accepted(t, r.admission, s))
		require.False(t, err != nil && strings.Contains(err.Error(), "panic"), err)

		var got []int64
		answers := 0
		replies := bufio.NewReader(bytes.NewReader(s.sent.Bytes()))
		for {
			if _, err := replies.Peek(1); err != nil {
				break
			}
			method := http.MethodGet
			if answers < len(methods) {
				method = methods[answers]
			}
			res, err := http.ReadResponse(replies, &http.Request{Method: method})
			require.NoError(t, err, "%q", s.sent.Bytes())
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			if res.StatusCode == http.StatusContinue {
				continue
			}
			answers++
			require.NotEqual(t, http.StatusInternalServerError, res.StatusCode, "a handler panicked, or failed: %s", body)
			if res.StatusCode >= 400 {
				if method != http.MethodHead {
					answer{status: res.StatusCode, header: res.Header, body: string(body)}.requireKnownError(t)
				}
				continue
			}
			got = append(got, idsIn(t, body)...)
		}
		require.GreaterOrEqual(t, r.used(), len(got))
		if answers >= len(methods) { // else fasthttp dropped answers that it hadn't sent when a body broke off
			require.Len(t, got, r.used(), "an ID was taken and not given")
		}
		require.LessOrEqual(t, answers, len(methods)+1)
		for _, row := range r.table.rows {
			require.NoError(t, ids.CheckKey([]byte(row.Tag)))
			requireIssuable(t, row)
		}
	})
}

// requireKnownError fails unless a is an error of answers.
func (a answer) requireKnownError(t *testing.T) {
	t.Helper()
	i := slices.IndexFunc(reply.All(), func(e *reply.Error) bool {
		return a.status == e.Status && strings.HasPrefix(a.body, `{"code":"`+e.Code+`",`)
	})
	require.GreaterOrEqual(t, i, 0, "%d %s", a.status, a.body)
	a.requireError(t, a.status, reply.All()[i].Code)
}

// idsIn returns the IDs in a body; none where it has none.
func idsIn(t *testing.T, body []byte) []int64 {
	t.Helper()
	texts := strings.Fields(string(body))
	var list struct{ IDs []string }
	if json.Unmarshal(body, &list) == nil && list.IDs != nil {
		texts = list.IDs
	}
	var ids []int64
	for _, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil
		}
		ids = append(ids, id)
	}
	return ids
}

// requireIssuable fails unless the next range of row can be issued.
func requireIssuable(t *testing.T, row segment.Row) {
	t.Helper()
	end := new(big.Int).Add(big.NewInt(row.MaxID), big.NewInt(row.Step))
	require.True(t, row.Step >= 1 && row.MaxID >= 0 && end.IsInt64(), "%+v", row)
}
