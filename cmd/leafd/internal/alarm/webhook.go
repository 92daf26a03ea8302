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

	"github.com/leafd/leafd/server/condition"
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

// posted is what the webhook has got last for a code, and until when it gets no more for it.
type posted struct {
	notice
	quiet time.Duration // monotonic
	until time.Duration // monotonic; for so long it stands by an event, however many events come after that
	told  bool          // it was not dropped: its end is told, too
}

// send posts an alarm, where it is to be posted. By an event it stands until then; 0: it is a condition.
func (a *Alarms) send(n notice, until time.Duration) {
	a.mu.Lock()
	now, is := a.cfg.Clock.Mono(), a.firing[n.Code]
	var dropped []notice
	if a.hook.Load() != nil && (is == nil || now >= is.quiet) {
		if is == nil {
			is = &posted{}
			a.firing[n.Code] = is
		}
		dropped = a.begin(n)
		is.notice, is.quiet, is.told = n, now+PostPause, is.told || dropped == nil
	}
	if is != nil {
		is.until = max(is.until, until)
	}
	a.mu.Unlock()
	a.drop(dropped)
}

// resolve posts the end of each code that the webhook has got, and for which no condition and no event stands any more.
func (a *Alarms) resolve(stands map[condition.Code]bool) {
	var dropped []notice
	a.mu.Lock()
	for code, was := range a.firing {
		if !stands[code] && a.cfg.Clock.Mono() >= was.until {
			n := was.notice
			n.Status, n.Time = "resolved", a.cfg.Clock.Read().Wall().String()
			delete(a.firing, code)
			if was.told && a.hook.Load() != nil {
				dropped = append(dropped, a.begin(n)...)
			}
		}
	}
	a.mu.Unlock()
	a.drop(dropped)
}

// begin posts n in the background, once what was posted of its code before is delivered or given up. It returns n where
// there is no room for it. mu is locked.
func (a *Alarms) begin(n notice) (dropped []notice) {
	before, done := a.posts[n.Code], make(chan struct{})
	if a.life.Err() != nil || !a.underWay.TryGo(func() error {
		defer close(done)
		if before != nil {
			<-before
		}
		a.deliver(n)
		return nil
	}) {
		return []notice{n}
	}
	a.posts[n.Code] = done
	return nil
}

// drop counts notices that had no room.
func (a *Alarms) drop(dropped []notice) {
	for _, n := range dropped {
		a.results.WithLabelValues("dropped").Inc()
		a.cfg.Log.Warn().Str("code", string(n.Code)).Msg("an alarm is not delivered: too many are on their way, or leafd is stopping")
	}
}

// deliver posts n, again and again where that may help until life ends, and then a last time. Undelivered
// says so from the first try that fails: a receiver that hangs is seen while it does.
func (a *Alarms) deliver(n notice) {
	post := func() (struct{}, error) {
		err := a.post(n)
		if err != nil {
			a.lost.Store(&err)
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(a.life, post, backoff.WithMaxElapsedTime(retryFor))
	if errors.Is(err, context.Canceled) {
		_, err = post()
	}
	if err != nil {
		a.results.WithLabelValues("failed").Inc()
		a.cfg.Log.Warn().Err(err).Str("code", string(n.Code)).Msg("an alarm was not delivered")
		return
	}
	a.results.WithLabelValues("ok").Inc()
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
