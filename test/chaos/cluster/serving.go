package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/chaos/checker"
	"github.com/leafd/leafd/test/chaos/history"
)

// pollPause is the time between two looks at a daemon.
const pollPause = 50 * time.Millisecond

// get asks for something other than IDs, in JSON.
func get(ctx context.Context, url string, into any) (status int, err error) {
	status, body, err := fetch(ctx, url)
	if err != nil {
		return 0, err
	}
	return status, json.Unmarshal(body, into)
}

func fetch(ctx context.Context, url string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// identity is what GET /api/worker says, and an entry of GET /api/workers.
type identity struct {
	ID       int64  `json:"worker_id"`
	Node     string `json:"node"`
	Owner    string `json:"owner"`
	Instance string `json:"instance"`
	State    string `json:"state"`
	Ceiling  int64  `json:"ceiling"`
	Limit    int64  `json:"limit"`
	Since    int64  `json:"since"`
}

// askIdentity writes down which worker l says that it is, and each time that it says that
// its life is over, or is another. The next one begins a second later at least.
func (s *slot) askIdentity(l *life) {
	var said identity
	for !l.Ended() && s.c.sleep(pollPause) == nil {
		var me identity
		status, err := get(s.c.ctx, "http://"+s.addr+"/api/worker", &me)
		if err != nil || status != http.StatusOK || s.life.Load() != l || l.Ended() {
			continue
		}
		r := history.Record{At: s.c.now(), Process: l.number, Daemon: s.name, Worker: me.ID, Owner: me.Owner, Text: me.Node}
		if said.Owner != "" && !said.over() && (me.over() || me.Owner != said.Owner) {
			r.Kind = history.KindDisplaced
			displaced := r
			s.c.record(&displaced)
		}
		if !me.over() && me.Owner != said.Owner {
			r.Kind = history.KindWorker
			s.c.record(&r)
		}
		said = me
	}
}

// over tells that a life is: it was displaced, or its lease is over. The next one begins
// later.
func (i identity) over() bool { return i.Since == 0 }

// Serving waits until every daemon serves again, and ZooKeeper knows all that it
// needs: one that was displaced too, by itself. A daemon that isn't back in time is a
// violation; fault is what it is blamed on.
func (c *Cluster) Serving(fault int) error {
	deadline := time.Now().Add(c.cfg.Within)
	for _, s := range c.slots {
		for {
			why := s.lacks()
			if why == nil {
				break
			}
			if time.Now().After(deadline) {
				return c.violates(checker.Live, "%s is not back %s after fault %d ended: %v", s.name, c.cfg.Within, fault, why)
			}
			if err := c.sleep(pollPause); err != nil {
				return err
			}
		}
	}
	return nil
}

// lacks returns nil when s serves everything, and ZooKeeper is told of it.
func (s *slot) lacks() error {
	c := s.c
	l := s.life.Load()
	if l == nil || l.Ended() {
		return errors.New("it doesn't run: " + s.lastWords())
	}
	var ready struct{ Code, Message string }
	status, err := get(c.ctx, "http://"+s.addr+"/readyz", &ready)
	switch {
	case err != nil:
		return fmt.Errorf("it doesn't answer: %w", err)
	case status != http.StatusOK:
		return fmt.Errorf("it is not ready: %s: %s", ready.Code, ready.Message)
	}
	for tag := range tags() {
		if err := s.probe(tag); err != nil {
			return err
		}
	}
	if err := s.probe(history.Snowflake); err != nil {
		return err
	}
	return s.known()
}

// lastWords is the end of the log of the last process.
func (s *slot) lastWords() string {
	if l := s.life.Load(); l != nil {
		return l.lastLine()
	}
	return "nothing was started"
}

// probe asks for an ID, as a client does.
func (s *slot) probe(stream string) error {
	cl := newClient(s, newDice(0))
	cl.fresh = true
	l := s.life.Load()
	if l == nil {
		return errors.New("it doesn't run")
	}
	r := &history.Record{Kind: history.KindRequest, Process: l.number, Stream: stream, Asked: 1}
	sent := now()
	r.At, r.Wall = int64(sent.Sub(s.c.began)), sent.UnixNano()
	defer cl.http.Close()
	err := cl.ask(r)
	if loadtest.IsDial(err) {
		return fmt.Errorf("it doesn't take connections: %w", err)
	}
	r.Process, r.Conn = cl.life.number, cl.number
	if !cl.answered(r, sent, err) {
		return fmt.Errorf("%s: status %d %s", stream, r.Status, r.Code)
	}
	return nil
}

// me is the identity that the daemon tells.
func (s *slot) me() (identity, error) {
	var me identity
	if status, err := get(s.c.ctx, "http://"+s.addr+"/api/worker", &me); err != nil || status != http.StatusOK {
		return identity{}, fmt.Errorf("/api/worker of %s: status %d: %w", s.name, status, err)
	}
	return me, nil
}

// entries are what ZooKeeper has, as the daemon sees it.
func (s *slot) entries() ([]identity, error) {
	var list struct{ Workers []identity }
	if status, err := get(s.c.ctx, "http://"+s.addr+"/api/workers", &list); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("/api/workers of %s: status %d: %w", s.name, status, err)
	}
	return list.Workers, nil
}

// known returns nil when ZooKeeper has the ceiling that the daemon issues under.
func (s *slot) known() error {
	me, err := s.me()
	if err != nil {
		return err
	}
	list, err := s.entries()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list, func(e identity) bool { return e.ID == me.ID })
	switch {
	case at < 0:
		return fmt.Errorf("ZooKeeper has no entry of worker %d, which it is", me.ID)
	case list[at].Instance != me.Instance || list[at].State != "live" || list[at].Ceiling < me.Ceiling:
		return fmt.Errorf("ZooKeeper has %+v, and it is %+v", list[at], me)
	}
	return nil
}

// restart stops the daemon as an operator does, and starts it.
func (s *slot) restart() error {
	if err := s.end(syscall.SIGTERM); err != nil {
		return err
	}
	s.idle()
	return s.startUp()
}
