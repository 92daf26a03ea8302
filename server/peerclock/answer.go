package peerclock

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/leafd/leafd/clock"
)

// answer is the JSON of a leafd's clock.
type answer struct {
	node, owner string
	timestamp   clock.Millis
	cluster     string
	workerID    int64
	since       clock.Millis // 0: it issues nothing
	slotsLent   int
}

const maxName = 255 // bytes of a node's or a cluster's name

// parseAnswer reads the body of GET /api/clock. It returns ErrAnswer and what is missing,
// with nothing of the body: a service that isn't leafd must not be taken for
// a clock, and every leafd tells the UUID of its life.
func parseAnswer(body []byte) (answer, error) {
	var a struct {
		Node      string       `json:"node"`
		Owner     string       `json:"owner"`
		Timestamp *int64       `json:"timestamp"`
		Cluster   string       `json:"cluster"`
		WorkerID  int64        `json:"worker_id"`
		Since     clock.Millis `json:"since"`
		SlotsLent int          `json:"slots_lent"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Timestamp == nil || len(a.Owner) != len(uuid.Nil.String()) || uuid.Validate(a.Owner) != nil {
		return answer{}, fmt.Errorf("%w: no JSON object with an owner and a timestamp in milliseconds", ErrAnswer)
	}
	at := clock.Millis(*a.Timestamp)
	if !plausible(at) {
		return answer{}, fmt.Errorf("%w: its timestamp is not one of the years 2000 to 9998 in milliseconds", ErrAnswer)
	}
	if a.WorkerID < 0 || a.Since != 0 && !plausible(a.Since) {
		return answer{}, fmt.Errorf("%w: its worker ID, or the time since which it has it, is impossible", ErrAnswer)
	}
	if !isName(a.Node) || !isName(a.Cluster) {
		return answer{}, fmt.Errorf("%w: its names are too long, or not text", ErrAnswer)
	}
	return answer{node: a.Node, owner: a.Owner, timestamp: at, cluster: a.Cluster, workerID: a.WorkerID, since: a.Since, slotsLent: a.SlotsLent}, nil
}

// plausible reports whether t can be a clock in milliseconds, even a wrong one. A time in
// seconds or microseconds can't.
func plausible(t clock.Millis) bool {
	first := clock.MillisOf(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	end := clock.MillisOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	return t >= first && t < end
}

// isName reports whether s can stand in a log line and a table.
func isName(s string) bool {
	if len(s) > maxName || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
