package alarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// tryTimeout is what one try has, from connecting to the end of the answer.
	tryTimeout = 5 * time.Second
	// retryFor is how long an alarm is tried again.
	retryFor = 5 * time.Minute
)

// SetWebhook makes webhook the one that alarms are posted to from then on, those that are tried
// again included: an http or https URL; nil: none, as at first.
//
// The URL often is a secret: chat services put a token into it. Of it nothing
// but scheme and host is ever told, and so the text of a url.Error never is.
func (a *Alarms) SetWebhook(webhook *url.URL) { a.hook.Store(webhook) }

func newClient() *http.Client {
	return &http.Client{
		Timeout: tryTimeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			// Alarms are rare: a connection that is kept is dead by the next.
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirect may turn the POST into a GET, which would look like a delivery, or
		// lead from https to http, where the alarm is readable on the way.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send posts n in the background, where it is to be posted.
func (a *Alarms) send(n notice) {
	a.mu.Lock()
	now := a.cfg.Clock.Mono()
	until, told := a.quiet[n.Code]
	wanted := a.hook.Load() != nil && (!told || now >= until)
	if wanted {
		a.quiet[n.Code] = now + PostPause
	}
	dropped := wanted && (a.life.Err() != nil || !a.posts.TryGo(func() error { a.deliver(n); return nil }))
	a.mu.Unlock()
	if dropped {
		a.posted.WithLabelValues("dropped").Inc()
		a.cfg.Log.Warn().Str("code", string(n.Code)).Msg("an alarm is not delivered: too many are on their way, or leafd is stopping")
	}
}

// deliver posts n, again and again where that may help until life ends, and then a last time.
func (a *Alarms) deliver(n notice) {
	post := func() (struct{}, error) { return struct{}{}, a.post(n) }
	_, err := backoff.Retry(a.life, post, backoff.WithMaxElapsedTime(retryFor))
	if errors.Is(err, context.Canceled) {
		_, err = post()
	}
	if err != nil {
		a.posted.WithLabelValues("failed").Inc()
		a.lost.Store(&err)
		a.cfg.Log.Warn().Err(err).Str("code", string(n.Code)).Msg("an alarm was not delivered")
		return
	}
	a.posted.WithLabelValues("ok").Inc()
	a.lost.Store(nil)
}

// post posts n once. Trying again changes nothing about an error that is backoff's permanent one.
func (a *Alarms) post(n notice) error {
	hook := a.hook.Load()
	if hook == nil {
		return backoff.Permanent(errors.New("the webhook was taken away"))
	}
	body, _ := json.Marshal(n) // of strings alone
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"leafd/" + a.cfg.Version}}
	req := &http.Request{Method: http.MethodPost, URL: hook, Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	where := hook.Scheme + "://" + hook.Host
	resp, err := a.client.Do(req.WithContext(a.work))
	if err != nil {
		return fmt.Errorf("%s: %w", where, errors.Unwrap(err)) // the text of the url.Error itself has the URL
	}
	defer resp.Body.Close()
	code := resp.StatusCode
	err = fmt.Errorf("%s answered %d", where, code)
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return err
	case code >= 300 && code < 400:
		err = fmt.Errorf("%w, a redirect that is not followed: give the URL that it leads to", err)
	}
	return backoff.Permanent(err)
}
