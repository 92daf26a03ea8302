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
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// tryTimeout is what one try has, from connecting to the end of the answer.
	tryTimeout = 5 * time.Second
	// retryFor is how long an alarm is tried again.
	retryFor = 5 * time.Minute
	// reply is how much of an answer's body is read, in bytes; none is used.
	reply = 4 << 10
)

// Results of a delivery, as the metrics name them.
const (
	resultOK      = "ok"
	resultFailed  = "failed"
	resultDropped = "dropped"
)

// SetWebhook makes webhook the one that alarms are posted to from then on, those that wait or are
// tried again included: an http or https URL; nil: none, as at first.
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

// errStopping ends the pause before another try.
var errStopping = errors.New("leafd is stopping")

// Run delivers until ctx is done, and then what is queued, for two more seconds. It is
// to be called once. Alarms that are raised after it are logged and not delivered.
func (a *Alarms) Run(ctx context.Context) error {
	// A try that is under way when ctx ends has until work does.
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	life, end := context.WithCancelCause(work)
	defer end(nil)
	defer context.AfterFunc(ctx, func() {
		end(errStopping)
		time.AfterFunc(a.grace, giveUp)
	})()
	for {
		select {
		case n := <-a.queue:
			a.deliver(work, life, n)
			continue
		case <-ctx.Done():
		}
		a.mu.Lock()
		a.ended = true
		close(a.queue) // enqueue sends no more
		a.mu.Unlock()
		for n := range a.queue {
			a.deliver(work, life, n)
		}
		return nil
	}
}

// deliver posts n, again and again where that may help until life ends, and then a last
// time. It returns when work ends.
func (a *Alarms) deliver(work, life context.Context, n notice) {
	if work.Err() != nil {
		a.drop(n, "leafd stops: an alarm was not delivered in time")
		return
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.RandomizationFactor = time.Second, 2, 0.2
	post := func() (struct{}, error) { return struct{}{}, a.post(work, n) }
	_, err := backoff.Retry(life, post, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(retryFor))
	if errors.Is(err, errStopping) {
		_, err = post()
	}
	if err != nil {
		a.posted.WithLabelValues(resultFailed).Inc()
		a.lost.Store(&err)
		a.cfg.Log.Warn().Err(err).Str("code", string(n.Code)).Msg("an alarm was not delivered")
		return
	}
	a.posted.WithLabelValues(resultOK).Inc()
	a.lost.Store(nil)
}

func (a *Alarms) drop(n notice, why string) {
	a.posted.WithLabelValues(resultDropped).Inc()
	a.cfg.Log.Warn().Str("code", string(n.Code)).Msg(why)
}

// post posts n once. Its errors are those of backoff: trying again changes nothing about a
// permanent one.
func (a *Alarms) post(ctx context.Context, n notice) error {
	hook := a.hook.Load()
	if hook == nil {
		return backoff.Permanent(errors.New("the webhook was taken away"))
	}
	body, err := json.Marshal(n)
	if err != nil {
		return backoff.Permanent(err)
	}
	where := hook.Scheme + "://" + hook.Host
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.String(), bytes.NewReader(body))
	if err != nil {
		return backoff.Permanent(errors.New(where + " can't be asked")) // err has the URL
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "leafd/"+a.cfg.Version)
	resp, err := a.client.Do(req)
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s: %w", where, u.Err)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// Reading to the end lets the other side close in peace; a failure to is none.
	_, _ = io.CopyN(io.Discard, resp.Body, reply)
	return judge(resp, fmt.Errorf("%s answered %d", where, resp.StatusCode))
}

// judge returns nil for a delivery, else err as backoff takes it.
func judge(resp *http.Response, err error) error {
	code := resp.StatusCode
	switch {
	case code >= 200 && code < 300:
		return nil
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		seconds, parseErr := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 32)
		if parseErr == nil && seconds > 0 {
			return fmt.Errorf("%w, %w", err, backoff.RetryAfter(int(seconds)))
		}
		return err
	case code >= 300 && code < 400:
		err = fmt.Errorf("%w, a redirect that is not followed: give the URL that it leads to", err)
	}
	return backoff.Permanent(err)
}
