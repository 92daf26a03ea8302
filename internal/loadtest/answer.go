package loadtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const (
	headerLimit = 64 << 10
	bodyLimit   = 64 << 20
)

var (
	// errHandshake: the connection was made, and the TLS handshake on it failed.
	errHandshake = errors.New("TLS handshake")
	// errNotHTTP: what came is no HTTP response, or has no end.
	errNotHTTP = errors.New("not an HTTP response")
)

// answer is a response, or the part of it that came.
type answer struct {
	status int    // 0: not even the head came whole
	body   []byte // until the next is read on this connection
	whole  bool
	last   bool // the connection can't be used again
}

// head is what the head of a response says.
type head struct {
	status int
	length int  // of the body
	last   bool // Connection: close
	plain  bool // read in place: else by net/http
}

// parseHead reads a head, which ends with an empty line.
func parseHead(b []byte) head {
	// HTTP/1.1 200 OK
	if len(b) < len("HTTP/1.1 200") || string(b[:9]) != "HTTP/1.1 " {
		return head{}
	}
	h := head{length: -1, plain: true}
	for _, c := range b[9:12] {
		if c < '0' || c > '9' {
			return head{}
		}
		h.status = h.status*10 + int(c-'0')
	}
	if h.status < 200 || h.status == http.StatusNoContent || h.status == http.StatusNotModified {
		return head{}
	}
	end := bytes.IndexByte(b, '\n')
	for b = b[end+1:]; len(b) > 2; b = b[end+1:] {
		if end = bytes.IndexByte(b, '\n'); end < 0 {
			return head{}
		}
		colon := bytes.IndexByte(b[:end], ':')
		if colon < 0 {
			return head{}
		}
		value := bytes.TrimSpace(b[colon+1 : end])
		switch colon { // lengths first: names differ in case
		case len("content-length"):
			if bytes.EqualFold(b[:colon], []byte("content-length")) {
				n, ok := parseLength(value)
				if !ok || h.length >= 0 {
					return head{}
				}
				h.length = n
			}
		case len("transfer-encoding"):
			if bytes.EqualFold(b[:colon], []byte("transfer-encoding")) {
				return head{}
			}
		case len("connection"):
			if bytes.EqualFold(b[:colon], []byte("connection")) && bytes.EqualFold(value, []byte("close")) {
				h.last = true
			}
		}
	}
	h.plain = h.length >= 0
	return h
}

func parseLength(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= bodyLimit
}

// readOther reads any response there is, of which before came already, and returns
// what came after it.
func readOther(before []byte, r io.Reader) (a answer, rest []byte, err error) {
	came := bytes.NewReader(bytes.Clone(before))
	br := bufio.NewReader(io.MultiReader(came, r))
	for {
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) || isNet(err) {
				return answer{}, nil, err
			}
			return answer{}, nil, fmt.Errorf("%w: %w", errNotHTTP, err)
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, bodyLimit+1))
		_ = res.Body.Close()
		if res.StatusCode < http.StatusOK && res.StatusCode != http.StatusSwitchingProtocols {
			continue // an interim response: the real one follows
		}
		a := answer{status: res.StatusCode, body: body, whole: err == nil, last: res.Close}
		if err == nil && len(body) > bodyLimit {
			a.whole = false
			err = fmt.Errorf("%w: a body of more than %d bytes", errNotHTTP, bodyLimit)
		}
		rest, _ = br.Peek(br.Buffered()) // there are as many
		rest = append(bytes.Clone(rest), before[len(before)-came.Len():]...)
		return a, rest, err
	}
}

// parseIDs appends the IDs of a body, one a line, to ids. Of a body that isn't
// whole the last line doesn't count, unless it ends: its ID may have been longer.
// ok is false when there is anything but IDs.
func parseIDs(ids []int64, body []byte, whole bool) (list []int64, ok bool) {
	const digits = 19 // of the largest int64; no number of 19 digits overflows a uint64
	for i := 0; i < len(body); {
		var v uint64
		start := i
		for i < len(body) && body[i]-'0' <= 9 {
			v = v*10 + uint64(body[i]-'0')
			i++
		}
		if i == len(body) && !whole {
			return ids, true
		}
		n := i - start
		if n == 0 || n > digits || v > 1<<63-1 || n > 1 && body[start] == '0' || i < len(body) && body[i] != '\n' {
			return ids, false
		}
		ids = append(ids, int64(v))
		i++
	}
	return ids, true
}

// codeOf returns the stable code of a refusal, "" where there is none.
func codeOf(body []byte) string {
	rest, found := bytes.CutPrefix(body, []byte(`{"code":"`))
	if !found {
		return ""
	}
	code, _, found := bytes.Cut(rest, []byte{'"'})
	if !found || len(code) == 0 || len(code) > 64 {
		return ""
	}
	for _, c := range code {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return ""
		}
	}
	return string(code)
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
