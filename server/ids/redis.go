package ids

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/leafd/leafd/server/conn"
	"github.com/leafd/leafd/server/reply"
	"github.com/leafd/leafd/server/resp"
)

// newRedisClient returns what answers c, the number of the connections so far.
func (s *Server) newRedisClient(c *client, number uint64) *redisClient {
	r := &redisClient{s: s, c: c, stripe: &s.metrics.redisLatency.stripes[number&s.metrics.redisLatency.mask]}
	r.session = resp.New(r, r)
	return r
}

// serve answers the connection, and closes it.
func (r *redisClient) serve() {
	s, c := r.s, r.c
	defer c.Close() //nolint:errcheck // nothing is to be done about it
	defer func() {
		if v := recover(); v != nil {
			s.RedisPanicked(v)
			_, _ = c.Write(resp.AppendError(nil, reply.ErrInternal.Redis(), reply.ErrInternal.Message)) // the client may be gone
		}
		r.Release()
	}()
	if err := r.session.Serve(); err == nil || errors.Is(err, io.EOF) {
		conn.Linger(c.Conn)
	}
}

// redisClient is a connection of the Redis protocol, and what its commands are answered
// from. One goroutine uses it. It keeps the rules of serveIDs and of latency.
type redisClient struct {
	s       *Server
	c       *client
	session *resp.Session
	stripe  *stripe
	began   time.Duration // when the commands were read, on the monotonic clock
	pending [modes]redisCount
	held    *batch // nil: none
	last    bool   // the last answers were written while the server drained

	token  [sha256.Size]byte // its SHA-256; zero: none was given
	caller *caller           // of the token, by the settings of under
	under  *live
}

// redisCount counts requests that are answered in what is written next: [1] are batches.
type redisCount struct {
	served, failed [2]int
	ids            int // in batches
}

var _ resp.Source = (*redisClient)(nil)

// Read reads commands. The clock is read once for all of them.
func (r *redisClient) Read(p []byte) (int, error) {
	if r.last {
		return 0, io.EOF
	}
	if r.session.Begun() {
		r.c.Begun()
	}
	// The other connections' turn comes first: by then the client's next commands are there,
	// where the daemon is busy, and the kernel is not asked in vain (half of the reads were).
	runtime.Gosched()
	n, err := r.c.Read(p)
	r.began = r.s.cfg.Clock.Mono()
	return n, err
}

// Write writes answers, and counts what they answer.
func (r *redisClient) Write(p []byte) (int, error) {
	took := time.Duration(-1)
	for m := range r.pending {
		if r.pending[m] == (redisCount{}) {
			continue
		}
		if took < 0 {
			took = r.s.cfg.Clock.Mono() - r.began
		}
		for batch := range 2 {
			if n := r.pending[m].served[batch]; n > 0 {
				r.stripe.served[m][batch].add(took, n)
			}
			if n := r.pending[m].failed[batch]; n > 0 {
				r.stripe.failed[m][batch].add(took, n)
			}
		}
		r.stripe.served[m][1].batch.Add(int64(r.pending[m].ids))
		r.pending[m] = redisCount{}
	}
	r.last = r.s.Draining()
	return r.c.Write(p)
}

// Next implements resp.Source.
func (r *redisClient) Next(of resp.Mode, key []byte, most int) (first int64, n int, err error) {
	m := redisModes[of]
	b, settings, err := r.admit(m, key)
	if err == nil {
		err = r.charge(settings, m, key, 1)
	}
	if err != nil {
		return 0, 0, err
	}
	if limit, _ := settings.limitOf(key); limit.On() {
		most = 1 // that much is charged
	}
	first, n, err = r.s.next(r.c, r.caller, b, m, key, most, r.began)
	if err != nil {
		r.pending[m].failed[0]++
		return 0, 0, err
	}
	r.pending[m].served[0] += n
	return first, n, nil
}

// Batch implements resp.Source.
func (r *redisClient) Batch(of resp.Mode, as resp.Form, key, count, pending []byte) (all []byte, held bool, err error) {
	m, f := redisModes[of], redisForms[as]
	b, settings, err := r.admit(m, key)
	if err != nil {
		return nil, false, err
	}
	most := settings.most(m, f.ranges())
	n, ok := ParseCount(count, most)
	if !ok {
		return nil, false, reply.ErrBadCount.With("count is a number from 1 to %d", most)
	}
	if err := r.charge(settings, m, key, n); err != nil {
		return nil, false, err
	}
	many := index(n > 1)
	out, err := r.s.batch(asked{r.c, r.caller, b, m, key, n, f}, pending)
	if err != nil {
		r.pending[m].failed[many]++
		return nil, false, err
	}
	r.pending[m].served[many]++
	if n > 1 {
		r.pending[m].ids += n
	}
	if out.held != nil {
		r.held = out
		return out.text, true, nil
	}
	all = append(pending, out.text...)
	out.release()
	return all, false, nil
}

// admit is Server's, by the settings that it returns, too.
func (r *redisClient) admit(m mode, key []byte) (*Backend, *live, error) {
	if CheckKey(key) != nil || len(key) > kinds[m].maxKey {
		return nil, nil, reply.ErrBadRawKey
	}
	settings := r.s.live.Load()
	b, err := r.s.admit(settings, r.by(settings), m, key)
	return b, settings, err
}

func (r *redisClient) charge(settings *live, m mode, key []byte, n int) error {
	return r.s.overload.charge(r.c, r.caller, m, key, n, r.began, settings)
}

// Turn implements resp.Source.
func (r *redisClient) Turn() { r.c.NextTurn() }

// Release implements resp.Source.
func (r *redisClient) Release() {
	if r.held != nil {
		r.held.release()
		r.held = nil
	}
}

// Decode implements resp.Source.
func (r *redisClient) Decode(id []byte) ([]resp.Field, error) {
	d, _, err := r.s.decoded(string(id))
	if err != nil {
		return nil, err
	}
	fields := []resp.Field{{Name: "id", Number: int64(d.ID)}, {Name: "timestamp", Number: int64(d.Timestamp)}, {Name: "time", Text: d.Time}}
	if d.Datacenter != nil {
		fields = append(fields, resp.Field{Name: "datacenter", Number: *d.Datacenter})
	}
	return append(fields, resp.Field{Name: "worker", Number: d.Worker}, resp.Field{Name: "sequence", Number: d.Sequence}, resp.Field{Name: "layout", Text: d.Layout}), nil
}

// Authorize implements resp.Source: the password is a caller's token, or the admin token, and the
// user its name.
func (r *redisClient) Authorize(user, password []byte) (ok, open bool) {
	settings := r.s.live.Load()
	if !settings.callers.on && !settings.callers.adminOn {
		return false, true
	}
	c := settings.callers.of(password)
	if c == nil || user != nil && string(user) != "default" && string(user) != c.name {
		conn.From(r.s.Sampled.Warn().Str("audit", "refused"), r.c.Conn).Msg("refused: wrong password in the Redis protocol")
		return false, false
	}
	r.token, r.caller, r.under = sha256.Sum256(password), c, settings
	return true, false
}

// Forget implements resp.Source.
func (r *redisClient) Forget() { r.token, r.caller = [sha256.Size]byte{}, nil }

// by returns the caller of the token that the client has; nil: none, or a reload took it away.
func (r *redisClient) by(settings *live) *caller {
	if r.under != settings {
		r.under = settings
		r.caller = settings.callers.byDigest[r.token]
	}
	return r.caller
}

// Answer implements resp.Source.
func (r *redisClient) Answer(err error) (code, message string) {
	e := r.s.Now(err)
	if e.Status == http.StatusInternalServerError {
		r.s.Sampled.Error().Err(err).Str("protocol", "redis").Msg("request failed")
	}
	if e.RetryAfter > 0 {
		return e.Redis(), fmt.Sprintf("%s (try again in %d s)", e.Message, e.RetryAfter)
	}
	if e == reply.ErrNoToken {
		return e.Redis(), "Authentication required."
	}
	return e.Redis(), e.Message
}

// Refused implements resp.Source.
func (r *redisClient) Refused(code string) { r.s.RedisFailed(code) }

// Info implements resp.Source. What only operators see of HTTP's metrics they alone see here.
func (r *redisClient) Info() []byte {
	c := r.by(r.s.live.Load())
	whole := c != nil && c.admin || !r.s.cfg.AdminApart
	return r.s.Info(whole)
}
