package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// How long a daemon that failed is left alone: the double after each failure.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	// longestRetryAfter bounds what a daemon may ask for.
	longestRetryAfter = 30 * time.Second
)

// daemon is one address.
type daemon struct {
	client  *Client
	base    string // URL without a slash at its end
	name    string // in errors
	address string // of a name; empty: base has it
	http    *http.Client

	mu       sync.Mutex
	failures int           // mu protects; in a row
	until    time.Duration // mu protects; it is left alone until then
	down     bool          // mu protects; a probe runs, and other daemons come first
	left     bool          // mu protects; its name hasn't its address any more
}

// state reports whether the daemon is down, and until when it is left alone.
func (d *daemon) state() (down bool, until time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down, d.until
}

// leave ends what goes on for a daemon with an address that its name no longer has.
func (d *daemon) leave() {
	d.mu.Lock()
	d.down, d.left = false, true
	d.mu.Unlock()
	if d.address != "" { // the transport is its own
		d.http.CloseIdleConnections()
	}
}

// worked ends what failures have led to.
func (d *daemon) worked() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures, d.until, d.down = 0, 0, false
}

// broke notes that the daemon gave no answer that could be used: it comes last until it
// answers a probe, or a request.
func (d *daemon) broke() {
	alone := d.client.isAlone()
	d.mu.Lock()
	defer d.mu.Unlock()
	if alone {
		d.failures = 0
	}
	d.until = d.client.mono() + pause(d.failures)
	d.failures++
	if !d.down && !d.left && !alone { // requests are its probes, where there is no other
		d.down = d.client.goRun(d.probe)
	}
}

// pause returns how long a daemon is left alone after so many failures before, spread so that
// clients don't come back together.
func pause(failures int) time.Duration {
	p := min(firstPause<<min(failures, 10), lastPause)
	return p/2 + rand.N(p/2+1) //nolint:gosec // no secret
}

// probe asks the daemon whether it is ready until it is, or it answered another request.
func (d *daemon) probe(ctx context.Context) {
	for {
		down, until := d.state()
		if !down {
			return
		}
		wait := time.NewTimer(max(until-d.client.mono(), firstPause/2))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		if d.ready(ctx) {
			d.worked()
			return
		}
		d.mu.Lock()
		d.failures++
		d.until = d.client.mono() + pause(d.failures)
		d.mu.Unlock()
	}
}

func (d *daemon) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, d.client.cfg.RequestTimeout)
	defer cancel()
	resp, err := d.do(ctx, http.MethodGet, "/readyz", "")
	if err != nil {
		return false
	}
	_, err = io.CopyN(io.Discard, resp.Body, 64<<10)
	return errors.Join(resp.Body.Close()) == nil && errors.Is(err, io.EOF) && resp.StatusCode == http.StatusOK
}

func (d *daemon) do(ctx context.Context, method, target, traceparent string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.base+target, nil)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	req.Header.Set("Cache-Control", "no-store")
	req.Header.Set("Accept", "text/plain")
	// Empty, so that it isn't sent: net/http repeats a POST on another connection then, where a
	// daemon has closed an idle one.
	req.Header["Idempotency-Key"] = nil
	if token := d.client.cfg.Token; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if traceparent != "" {
		req.Header.Set("Traceparent", traceparent)
	}
	resp, err := d.http.Do(req)
	if err != nil && d.address != "" {
		return nil, fmt.Errorf("client: at %s: %w", d.address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("client: %w", err) // names the URL
	}
	return resp, nil
}

// maxLine is the length of the longest range and its newline.
const maxLine = 40

// fetch asks for n IDs. It returns an *Error for a refusal,
// ErrBadResponse, and errors of the network.
func (d *daemon) fetch(ctx context.Context, target, traceparent string, n int) ([]run, error) {
	body, err := d.ask(ctx, http.MethodPost, target, traceparent, int64(n)*maxLine+1) // parseRanges refuses what is longer
	if err != nil {
		return nil, err
	}
	ids, err := parseRanges(body, n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	return ids, nil
}

// ask makes a request, and returns the body of a 200, so much of it at most. It returns errors as fetch does.
func (d *daemon) ask(ctx context.Context, method, target, traceparent string, most int64) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.client.cfg.RequestTimeout)
	defer cancel()
	resp, err := d.do(ctx, method, target, traceparent)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, d.refusal(resp)
	}
	if age := resp.Header.Get("Age"); age != "" {
		return nil, fmt.Errorf("%w: %s gave a cached response (Age: %s): IDs must not be cached", ErrBadResponse, d.name, age)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return nil, fmt.Errorf("client: reading from %s: %w", d.name, err)
	}
	return body, nil
}

// refusal reads a response that is no 200.
func (d *daemon) refusal(resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("client: reading from %s: %w", d.name, err)
	}
	e := &Error{Address: d.name, Status: resp.StatusCode}
	var reply struct{ Code, Message string }
	if json.Unmarshal(body, &reply) != nil || reply.Code == "" {
		return fmt.Errorf("%w: %s answered %s", ErrBadResponse, d.name, resp.Status)
	}
	e.Code, e.Message = reply.Code, reply.Message
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, int(longestRetryAfter/time.Second))) * time.Second
	}
	return e
}
