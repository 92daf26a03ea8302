// Package raw loads a server of HTTP or of Redis' protocol in the same way, so
// that the two can be compared: the same bytes again and again over each of some
// connections, a pipeline of them at a time, and the answers counted. Nothing of an
// answer is looked at but where it ends and that it is no error.
package raw

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ErrAnswer is returned when a server answers with an error, or with what isn't its
// protocol's.
var ErrAnswer = errors.New("raw: not the answer asked for")

// Framer returns how long the answer at the beginning of b is; 0: it isn't whole.
type Framer func(b []byte) (int, error)

// Config is a load.
type Config struct {
	Addr    string
	Request []byte // of one ID
	Frame   Framer
	Depth   int // requests in one write
	Conns   int
	For     time.Duration
}

// Result is what was answered.
type Result struct {
	Requests int64
	Elapsed  time.Duration
	P50, P99 time.Duration // of a pipeline
}

// Load puts the load on. Any connection that fails ends it.
func Load(ctx context.Context, cfg Config) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.For+time.Minute)
	defer cancel()
	conns := make([]net.Conn, 0, cfg.Conns)
	defer func() {
		for _, c := range conns {
			_ = c.Close() // its answers have come
		}
	}()
	var d net.Dialer
	for range cfg.Conns {
		c, err := d.DialContext(ctx, "tcp", cfg.Addr)
		if err != nil {
			return Result{}, fmt.Errorf("raw: %w", err)
		}
		conns = append(conns, c)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			_ = c.SetDeadline(time.Now()) // so that nobody waits any more
		}
	})
	defer stop()

	start := time.Now()
	var requests atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var first error // the others' are of the end that it brought
	var wg sync.WaitGroup
	for _, c := range conns {
		wg.Go(func() {
			took, err := worker(c, cfg, start, &requests)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			if err != nil && first == nil {
				first = err
				cancel()
			}
		})
	}
	wg.Wait()
	r := Result{Requests: requests.Load(), Elapsed: time.Since(start)}
	if first != nil {
		return Result{}, first
	}
	slices.Sort(all)
	if len(all) > 0 {
		r.P50, r.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return r, nil
}

// worker asks over one connection until the time is over.
func worker(c net.Conn, cfg Config, start time.Time, requests *atomic.Int64) ([]time.Duration, error) {
	pipeline := bytes.Repeat(cfg.Request, cfg.Depth)
	buf := make([]byte, 0, 64<<10)
	var took []time.Duration
	for sent := time.Since(start); sent < cfg.For; {
		if _, err := c.Write(pipeline); err != nil {
			return took, fmt.Errorf("raw: %w", err)
		}
		for left := cfg.Depth; left > 0; {
			n, err := cfg.Frame(buf)
			if err != nil {
				return took, err
			}
			if n > 0 {
				buf = buf[n:]
				left--
				continue
			}
			if cap(buf)-len(buf) < 4<<10 {
				buf = append(make([]byte, 0, 64<<10+len(buf)), buf...)
			}
			if n, err = c.Read(buf[len(buf):cap(buf)]); err != nil {
				return took, fmt.Errorf("raw: %w", err)
			}
			buf = buf[:len(buf)+n]
		}
		requests.Add(int64(cfg.Depth))
		now := time.Since(start)
		took = append(took, now-sent)
		sent = now
	}
	return took, nil
}

// Redis frames an answer that is a number, or an array of numbers.
func Redis(b []byte) (int, error) {
	at := bytes.IndexByte(b, '\n') + 1
	if at == 0 {
		return 0, nil
	}
	numbers := 0
	switch b[0] {
	case ':':
	case '*':
		var err error
		if numbers, err = strconv.Atoi(string(bytes.TrimSpace(b[1:at]))); err != nil || numbers < 0 {
			return 0, fmt.Errorf("%w: length %q", ErrAnswer, b[:at])
		}
	default:
		return 0, fmt.Errorf("%w: %q", ErrAnswer, b[:at])
	}
	for range numbers {
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			return 0, nil
		}
		if b[at] != ':' {
			return 0, fmt.Errorf("%w: %q", ErrAnswer, b[at:at+end])
		}
		at += end + 1
	}
	return at, nil
}

// HTTP frames an answer with a length.
func HTTP(b []byte) (int, error) {
	head := bytes.Index(b, []byte("\r\n\r\n"))
	if head < 0 {
		return 0, nil
	}
	const ok = "HTTP/1.1 200 "
	if !bytes.HasPrefix(b, []byte(ok)) {
		return 0, fmt.Errorf("%w: %q", ErrAnswer, b[:head])
	}
	_, length, found := bytes.Cut(b[:head+2], []byte("\r\nContent-Length: "))
	if !found {
		return 0, fmt.Errorf("%w: no length in %q", ErrAnswer, b[:head])
	}
	length = length[:bytes.IndexByte(length, '\r')]
	n, err := strconv.Atoi(string(length))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: length %q", ErrAnswer, length)
	}
	if n += head + 4; n > len(b) {
		return 0, nil
	}
	return n, nil
}
