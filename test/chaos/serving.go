package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// healed is how long after the last fault every daemon serves again.
const healed = 2 * time.Minute

// serving waits until every daemon serves, and ZooKeeper has what they issue under: an operator's word may follow.
func (c *chaos) serving() error {
	for _, d := range c.daemons {
		if err := c.within(healed, d.lacks); err != nil {
			return errors.Join(err, c.breaks("%s doesn't serve %s after the last fault: %w; %s", d.name, healed, err, d.lastLine()))
		}
	}
	return nil
}

// lacks returns nil when d serves everything, and ZooKeeper knows.
func (d *daemon) lacks() error {
	if err := d.ready(); err != nil {
		return err
	}
	cl := newClient(d)
	defer cl.http.Close()
	for _, stream := range append([]string{snowflake}, "chaos-tiny", "chaos-small", "chaos-wide") {
		if err := cl.ask(stream, 1, false); err != nil {
			return fmt.Errorf("%s: %w", stream, err)
		}
	}
	me, err := d.me()
	if err != nil {
		return err
	}
	var list struct{ Workers []identity }
	if err := d.get("/api/workers", &list); err != nil {
		return err
	}
	if !slices.ContainsFunc(list.Workers, func(e identity) bool {
		return e.ID == me.ID && e.Instance == me.Instance && e.State == "live" && e.Ceiling >= me.Ceiling
	}) {
		return fmt.Errorf("it is %+v, and ZooKeeper has %+v", me, list.Workers)
	}
	return nil
}

func (d *daemon) ready() error { return d.get("/readyz", &struct{}{}) }

// identity is what GET /api/worker says, and an entry of GET /api/workers.
type identity struct {
	ID       int64  `json:"worker_id"`
	Instance string `json:"instance"`
	State    string `json:"state"`
	Ceiling  int64  `json:"ceiling"`
}

// me returns what the daemon says that it is.
func (d *daemon) me() (me identity, err error) {
	err = d.get("/api/worker", &me)
	return me, err
}

// get reads JSON.
func (d *daemon) get(path string, into any) error {
	body, err := d.fetch(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (d *daemon) fetch(path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(d.c.ctx, clientTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.addr+path, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", path, res.Status, body)
	}
	return body, err
}
