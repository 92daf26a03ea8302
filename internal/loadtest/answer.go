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
	ids    []int64
	good   bool // there was nothing but IDs
	last   bool // the connection can't be used again
}

// read reads the next response, in any form that there is.
func (c *conn) read() (answer, error) {
	if _, err := c.in.Peek(1); err != nil { // fasthttp takes most errors there for io.EOF
		return answer{}, err
	}
	r := &c.response
	if err := r.ReadLimitBody(c.in, bodyLimit); err != nil {
		return answer{}, err
	}
	a := answer{status: r.StatusCode(), body: r.Body(), last: r.ConnectionClose()}
	if a.status == http.StatusOK {
		c.ids, a.good = parseIDs(c.ids[:0], a.body)
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

// parseIDs appends the IDs of a body, one a line, to ids. ok is false when there is anything
// but IDs.
func parseIDs(ids []int64, body []byte) (list []int64, ok bool) {
	const digits = 19 // of the largest int64; no number of 19 digits overflows a uint64
	for i := 0; i < len(body); i++ {
		var v uint64
		start := i
		for i < len(body) && body[i]-'0' <= 9 {
			v = v*10 + uint64(body[i]-'0')
			i++
		}
		n := i - start
		if n == 0 || n > digits || v > 1<<63-1 || n > 1 && body[start] == '0' || i < len(body) && body[i] != '\n' {
			return ids, false
		}
		ids = append(ids, int64(v))
	}
	return ids, true
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
