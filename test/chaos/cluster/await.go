package cluster

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// awaitReady tells whether l was ready within limit.
func (c *Cluster) awaitReady(l *life, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	return l.AwaitReady(ctx) == nil
}

// awaitRecord waits until the record in the data directory is as old as it should be,
// for a report or two, and returns how old it is.
func (s *slot) awaitRecord(right func(age time.Duration) bool) time.Duration {
	age := time.Duration(0)
	for end := time.Now().Add(2 * reportInterval); time.Now().Before(end); {
		if info, err := os.Stat(filepath.Join(s.dir, "worker.json")); err == nil {
			if age = time.Since(info.ModTime()); right(age) {
				break
			}
		}
		if s.c.sleep(5*time.Millisecond) != nil {
			break
		}
	}
	return age
}

// awaitWait returns when the wait of a start for its ceiling will be over, as its
// log says; zero where it says nothing of it for some time.
func (s *slot) awaitWait() (time.Time, error) {
	l := s.life.Load()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && !l.Ended(); {
		if wait := loggedWait(l.Log()); wait > 0 {
			return time.Now().Add(wait), nil
		}
		if err := s.c.sleep(5 * time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, nil
}

// loggedWait is how long a start waits for its ceiling, 0 where it has not said so.
func loggedWait(log string) time.Duration {
	for line := range strings.Lines(log) {
		var said struct {
			Wait float64 `json:"wait_ms"`
		}
		if strings.Contains(line, "waiting until its ceiling has passed") && json.Unmarshal([]byte(line), &said) == nil {
			return time.Duration(said.Wait * float64(time.Millisecond))
		}
	}
	return 0
}
