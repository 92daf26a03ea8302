package cluster

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// awaitReady tells whether l was ready within limit.
func (c *Cluster) awaitReady(s *slot, l *life, limit time.Duration) bool {
	for end := time.Now().Add(limit); time.Now().Before(end) && !l.over(); {
		var ready struct{ Code string }
		if status, err := get(c.ctx, "http://"+s.addr+"/readyz", &ready); err == nil && status == http.StatusOK {
			return true
		}
		if c.sleep(pollPause) != nil {
			return false
		}
	}
	return false
}

// awaitRecord waits until the record in the data folder is as old as it should be,
// for a report or two, and returns how old it is.
func (s *slot) awaitRecord(right func(age time.Duration) bool) time.Duration {
	age := time.Duration(0)
	for end := time.Now().Add(2 * reportInterval); time.Now().Before(end); {
		if info, err := os.Stat(filepath.Join(s.folder, "worker.json")); err == nil {
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
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && !l.over(); {
		if until := waitIn(l.log); !until.IsZero() {
			return until, nil
		}
		if err := s.c.sleep(5 * time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, nil
}

func waitIn(path string) time.Time {
	file, err := os.Open(path)
	if err != nil {
		return time.Time{}
	}
	defer file.Close() //nolint:errcheck // read only
	info, err := file.Stat()
	if err != nil {
		return time.Time{}
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Wait float64 `json:"wait_ms"`
		}
		if strings.Contains(lines.Text(), "waiting until its ceiling has passed") && json.Unmarshal(lines.Bytes(), &line) == nil {
			return info.ModTime().Add(time.Duration(line.Wait * float64(time.Millisecond)))
		}
	}
	return time.Time{}
}
