package loadtest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// answer is a response; its slices are valid until the next is read on this connection.
type answer struct {
	status int
	body   []byte
	ids    []int64 // of ranges the first and the last of each
	good   bool    // there was nothing but IDs
	last   bool    // the connection can't be used again
}

// read reads a response in any form that there is.
func (c *conn) read() (answer, error) {
	r := &c.response
	if err := r.ReadLimitBody(c.in, bodyLimit); err != nil {
		return answer{}, err
	}
	a := answer{status: r.StatusCode(), body: r.Body(), last: r.ConnectionClose()}
	if a.status == http.StatusOK {
		c.ids, a.good = parseIDs(c.ids[:0], a.body, c.ranges)
		a.ids = c.ids
	}
	return a, nil
}

// codeOf returns the code of a refusal, "" where there is none, as in a proxy's.
func codeOf(body []byte) string {
	var refusal struct{ Code string }
	if json.Unmarshal(body, &refusal) != nil {
		return ""
	}
	return refusal.Code
}

// parseIDs appends the IDs of a body, one a line, or of ranges two, to ids. ok is false
// when there is anything but IDs.
func parseIDs(ids []int64, body []byte, ranges bool) (list []int64, ok bool) {
	parts := 1 // of a line
	if ranges {
		parts = 2
	}
	const digits = 19 // of the largest int64; no number of 19 digits overflows a uint64
	for i := 0; i < len(body); i++ {
		var v uint64
		start := i
		for i < len(body) && body[i]-'0' <= 9 {
			v = v*10 + uint64(body[i]-'0')
			i++
		}
		n := i - start
		end := byte('\n')
		switch {
		case ranges && len(ids)%2 == 0:
			end = '-'
		case ranges && v-uint64(ids[len(ids)-1]) >= MaxBatch: // also of one that ends before it begins
			return ids[:len(ids)-1], false
		}
		if n == 0 || n > digits || v > 1<<63-1 || n > 1 && body[start] == '0' || i < len(body) && body[i] != end {
			return ids[:len(ids)&^(parts-1)], false
		}
		ids = append(ids, int64(v))
	}
	whole := len(ids) &^ (parts - 1)
	return ids[:whole], whole == len(ids)
}

// countIDs is how many IDs there are.
func countIDs(ids []int64, ranges bool) (n int64) {
	if !ranges {
		return int64(len(ids))
	}
	for i := 0; i < len(ids); i += 2 {
		n += ids[i+1] - ids[i] + 1
	}
	return n
}

// sample is the beginning of what a server said, for people.
func sample(body []byte) string {
	const most = 200
	text, more := bytes.TrimSpace(body), ""
	if len(text) > most {
		text, more = text[:most], "…"
	}
	return strings.ToValidUTF8(string(text), "?") + more
}
