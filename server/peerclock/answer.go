package peerclock

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leafd/leafd/clock"
)

// answer is what a leafd says about itself and its clock.
type answer struct {
	node, owner string // empty while it starts
	timestamp   clock.Millis
	cluster     string
	workerID    int64
	since       clock.Millis // 0: it issues nothing
}

const maxName = 255 // bytes of a node's or an owner's name

// parseAnswer reads the body of GET /api/clock. It returns ErrAnswer with what was found
// instead: a service that isn't leafd must not be taken for a clock.
func parseAnswer(body []byte) (answer, error) {
	var a struct {
		Node      string       `json:"node"`
		Owner     string       `json:"owner"`
		Timestamp *int64       `json:"timestamp"`
		Cluster   string       `json:"cluster"`
		WorkerID  int64        `json:"worker_id"`
		Since     clock.Millis `json:"since"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.Timestamp == nil {
		return answer{}, fmt.Errorf("%w: %s is no JSON object with a timestamp in milliseconds", ErrAnswer, quote(body))
	}
	at := clock.Millis(*a.Timestamp)
	if !plausible(at) {
		return answer{}, fmt.Errorf("%w: its timestamp %d is not one of the years 2000 to 9998 in milliseconds", ErrAnswer, int64(at))
	}
	if a.WorkerID < 0 || a.Since != 0 && !plausible(a.Since) {
		return answer{}, fmt.Errorf("%w: worker %d since %d is nobody", ErrAnswer, a.WorkerID, int64(a.Since))
	}
	if !isName(a.Node) || !isName(a.Owner) || !isName(a.Cluster) {
		return answer{}, fmt.Errorf("%w: the names in %s are too long, or not text", ErrAnswer, quote(body))
	}
	return answer{node: a.Node, owner: a.Owner, timestamp: at, cluster: a.Cluster, workerID: a.WorkerID, since: a.Since}, nil
}

// plausible tells whether t can be a clock in milliseconds, even a wrong one. A time in
// seconds or microseconds can't.
func plausible(t clock.Millis) bool {
	first := clock.MillisOf(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	end := clock.MillisOf(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	return t >= first && t < end
}

// isName tells whether s can stand in a log line and a table.
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

// quote returns the beginning of untrusted bytes, safe to print.
func quote(b []byte) string {
	const most = 64
	if len(b) <= most {
		return strconv.QuoteToASCII(string(b))
	}
	return strconv.QuoteToASCII(string(b[:most])) + "…"
}
