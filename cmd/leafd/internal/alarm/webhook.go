package alarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/leafd/leafd/clock"
)

const (
	// tryTimeout is what one try has, from connecting to the end of the answer.
	tryTimeout = 5 * time.Second
	// retryFor is how long an alarm is tried again.
	retryFor = 5 * time.Minute
	// redirects is how many are followed.
	redirects = 3
	// reply is how much of an answer's body is read, in bytes; none is used.
	reply = 4 << 10
)

// webhook posts alarms to a URL.
//
// The URL often is a secret: chat services put a token into it. Of it nothing
// but scheme and host is ever told, and so the text of a url.Error never is.
type webhook struct {
	url     *url.URL
	agent   string
	clock   clock.Clock
	client  *http.Client
	timeout time.Duration // of a try
}

func newWebhook(cfg Config) (*webhook, error) {
	u, err := url.Parse(cfg.Webhook)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, fmt.Errorf("%w: the webhook is not an http or https URL with a host", ErrConfig)
	}
	return &webhook{
		url:     u,
		agent:   "leafd/" + cfg.Version,
		clock:   cfg.Clock,
		timeout: tryTimeout,
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment,
				// Alarms are rare: a connection that is kept is dead by the next.
				DisableKeepAlives:      true,
				TLSHandshakeTimeout:    tryTimeout,
				MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: follow,
		},
	}, nil
}

// follow lets a redirect through that keeps scheme and method. All others are an
// answer: one that turns the POST into a GET would look like a delivery, and one
// from https to http would tell everybody on the way.
func follow(req *http.Request, via []*http.Request) error {
	if len(via) > redirects || req.Method != http.MethodPost || req.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// refusal is a failed try.
type refusal struct {
	err   error
	final bool          // trying again would change nothing
	after time.Duration // the answer asks for this pause
}

// deliver implements deliverer.
func (w *webhook) deliver(work, life context.Context, n notice) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.RandomizationFactor = time.Second, 2, 0.2
	began := w.clock.Mono()
	for tries := 1; ; tries++ {
		last := life.Err() != nil
		r := w.try(work, n.body)
		if r == nil {
			return nil
		}
		pause := max(pauses.NextBackOff(), r.after)
		switch {
		case r.final:
			return r.err
		case last:
			return fmt.Errorf("given up after %d tries, for leafd is stopping: %w", tries, r.err)
		case w.clock.Mono()-began+pause > retryFor:
			return fmt.Errorf("given up after %d tries: %w", tries, r.err)
		}
		// Ended by life, it is the last try that comes next.
		_ = w.clock.Sleep(life, pause)
	}
}

// try posts body once; nil: it is delivered.
func (w *webhook) try(work context.Context, body []byte) *refusal {
	ctx, cancel := context.WithTimeout(work, w.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return &refusal{err: w.wrap(err), final: true}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", w.agent)
	resp, err := w.client.Do(req)
	if err != nil {
		return &refusal{err: w.wrap(err)}
	}
	defer resp.Body.Close()
	// Reading to the end lets the other side close in peace; a failure to is none.
	_, _ = io.CopyN(io.Discard, resp.Body, reply)
	return judge(resp, fmt.Errorf("%s://%s answered %d", w.url.Scheme, w.url.Host, resp.StatusCode), w.clock.Read().Wall().Time())
}

// wrap leaves the URL out of err.
func (w *webhook) wrap(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return fmt.Errorf("%s://%s: %w", w.url.Scheme, w.url.Host, err)
}

// judge returns nil for a delivery.
func judge(resp *http.Response, err error, now time.Time) *refusal {
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return &refusal{err: err, after: retryAfter(resp.Header, now)}
	case code >= 300 && code < 400:
		return &refusal{err: fmt.Errorf("%w, a redirect that is not followed: give the URL that it leads to", err), final: true}
	}
	return &refusal{err: err, final: true}
}

// retryAfter returns the pause that an answer asks for; 0 for none. A date counts
// from the answer's own Date: our clock may be what the alarm is about.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}
