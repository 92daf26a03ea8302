package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/proctest"
)

// leafDatabase is the one that deploy/leaf_alloc.sql makes.
const leafDatabase = "leaf"

// database is a private MariaDB server. Its methods are for one goroutine at a time.
type database struct {
	host   *proctest.Outside
	server *mariadbtest.Server
	dsn    string
}

// startDatabase starts a server with the table, and with tags of the steps given.
// After an error nothing of it is left.
func startDatabase(script string, steps map[string]int64) (*database, error) {
	statements, err := os.ReadFile(script)
	if err != nil {
		return nil, fmt.Errorf("the script of the table: %w; run this in leafd's source directory", err)
	}
	// However the soak ends, the server is stopped in its turn.
	ctx := context.Background()
	d := &database{host: proctest.NewOutside(ctx)}
	err = d.host.Do(func(t testing.TB) {
		d.server = mariadbtest.Start(t)
		d.dsn = d.server.DSN(leafDatabase)
		if _, err := d.server.DB(t, "").ExecContext(ctx, string(statements)); err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		db := d.server.DB(t, leafDatabase)
		for tag, step := range steps {
			if _, err := db.ExecContext(ctx, "INSERT INTO leaf_alloc (biz_tag, step) VALUES (?, ?)", tag, step); err != nil {
				t.Fatalf("tag %s: %v", tag, err)
			}
		}
		_ = db.Close() // its connections are not the daemon's
	})
	if err != nil {
		return nil, errors.Join(err, d.host.End())
	}
	return d, nil
}

// absence is how long the database is away: at least, and then until the daemon has
// felt it, at most.
type absence struct {
	least, most time.Duration
	felt        func() bool // asked every feltEvery
}

// feltEvery is rare, because asking costs the load some milliseconds.
const feltEvery = 2 * time.Second

// away stops the server for a time, in order or as by a crash, and starts it again,
// also when ctx ends meanwhile.
func (d *database) away(ctx context.Context, a absence, kill bool) error {
	return d.host.Do(func(t testing.TB) {
		if kill {
			d.server.Kill(t)
		} else {
			d.server.Stop(t)
		}
		a.wait(ctx)
		d.server.Restart(t)
	})
}

func (a absence) wait(ctx context.Context) {
	for waited, step := time.Duration(0), a.least; ; step = min(feltEvery, a.most-waited) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(step):
		}
		if waited += step; waited >= a.most || a.felt() {
			return
		}
	}
}

// stop ends the server and removes its directory.
func (d *database) stop() error {
	stopped := d.host.Do(func(t testing.TB) { d.server.Stop(t) })
	return errors.Join(stopped, d.host.End())
}
