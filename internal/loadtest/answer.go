package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// answer is what came for a request; its slices are valid until the next is read on this
// connection.
type answer struct {
	status  int    // of HTTP
	refused bool   // with a code, where the daemon sent one
	code    string // of a refusal
	ids     []int64
	good    bool   // there was nothing but IDs
	text    []byte // to be shown
	last    bool   // the connection can't be used again
}

// readHTTP reads a response in any form that there is.
func (c *conn) readHTTP() (answer, error) {
	r := &c.response
	if err := r.ReadLimitBody(c.in, bodyLimit); err != nil {
		return answer{}, err
	}
	body := r.Body()
	a := answer{status: r.StatusCode(), text: body, last: r.ConnectionClose()}
	if a.refused = a.status != http.StatusOK; a.refused {
		var refusal struct{ Code string }
		if json.Unmarshal(body, &refusal) == nil { // else a proxy's
			a.code = refusal.Code
		}
		return a, nil
	}
	c.ids, a.good = parseIDs(c.ids[:0], body)
	a.ids = c.ids
	return a, nil
}

// readRedis reads a number, an array of numbers or an error.
func (c *conn) readRedis() (answer, error) {
	line, err := c.readLine()
	if err != nil {
		return answer{}, err
	}
	c.ids = c.ids[:0]
	a := answer{text: line, good: true}
	switch line[0] {
	case '-':
		a.refused = true
		a.code, _, _ = strings.Cut(string(line[1:]), " ")
	case ':':
		c.ids, a.good = parseIDs(c.ids, line[1:])
	case '*':
		n, err := strconv.Atoi(string(line[1:]))
		if err != nil {
			return answer{}, err
		}
		for range n {
			if line, err = c.readLine(); err != nil {
				return answer{}, err
			}
			if line[0] != ':' {
				return answer{}, fmt.Errorf("%q in an array of numbers", line)
			}
			before := len(c.ids)
			c.ids, _ = parseIDs(c.ids, line[1:])
			a.good = a.good && len(c.ids) == before+1
		}
		a.text = nil // the buffer has other lines now
	default:
		return answer{}, fmt.Errorf("%q", line)
	}
	a.ids = c.ids
	return a, nil
}

// readLine returns a line without its end; it is one byte long at least.
func (c *conn) readLine() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if line = bytes.TrimSuffix(line[:len(line)-1], []byte("\r")); len(line) == 0 {
		return nil, errors.New("an empty line")
	}
	return line, nil
}

// parseIDs appends the IDs of a body, one a line, to ids. ok is false when there is
// anything but IDs.
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
