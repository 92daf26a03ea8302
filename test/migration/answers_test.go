//go:build migration

package migration_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Tags of the table, and where their IDs begin.
var begins = map[string]int64{"order": 1, "a": 1_000_000_001, "a.b": 2_000_000_001}

const tags = 1003

// Each request is answered by a real Java Leaf and by leafd as the table has it.
func TestRequests(t *testing.T) {
	require.NotEmpty(t, realLeaf, "asks a real Java Leaf: make test-migration LEAF_JAR=leaf.jar")
	s := sharedSite(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) SELECT CONCAT('tag', seq), 1, 1000 FROM seq_1_to_1000")
	for tag, first := range begins {
		s.ok("segment", "create", tag, "--max-id", strconv.FormatInt(first, 10), "--step", "100000", "--mysql", s.dsn)
	}
	java, leafd := s.host(), s.host()
	java.java()
	s.ok("cluster", "init", "--new", "--yes")
	leafd.serve()

	off := &site{t: t}
	javaOff := off.host()
	require.NoError(t, os.WriteFile(javaOff.dir+"/leaf.properties", []byte("leaf.segment.enable=false\nleaf.snowflake.enable=false\n"), 0o600))
	require.NoError(t, javaOff.start(javaOff.javaCommand()))
	leafdOff := map[bool]*host{}
	for _, mode := range []string{"snowflake", "segment"} {
		h := off.host()
		require.NoError(t, h.launch([]string{s.leafd, "serve", "--listen", h.http, "--data-dir", h.dir + "/data", "--modes", mode}))
		require.NoError(t, h.runs.AwaitReady(t.Context()))
		leafdOff[mode == "segment"] = h
	}

	for _, r := range requests {
		ask, isOff := strings.CutPrefix(r.ask, "off: ")
		var j, l, javaBody, leafdBody string
		if isOff {
			j, _ = javaOff.answer(ask)
			l, _ = leafdOff[strings.HasPrefix(ask, flake)].answer(ask)
		} else {
			j, javaBody = java.counted(ask)
			l, leafdBody = leafd.counted(ask)
		}
		if r.differs == same {
			r.leafd = r.java
			if strings.HasPrefix(javaBody, "{") {
				require.JSONEq(t, javaBody, leafdBody, r.ask)
			}
		}
		if j != r.java || l != r.leafd {
			t.Errorf("%q: %q, and leafd %q; not %q and %q", r.ask, j, l, r.java, r.leafd)
		}
	}
}

// counted is answer, with the IDs of order that it used and did not bring.
func (h *host) counted(ask string) (told, body string) {
	h.t.Helper()
	_, before := h.answer("GET" + order)
	told, body = h.answer(ask)
	_, after := h.answer("GET" + order)
	first, err := strconv.Atoi(before)
	require.NoError(h.t, err)
	last, err := strconv.Atoi(after)
	require.NoError(h.t, err)
	switch used := last - first - 1; {
	case strings.Contains(told, "an ID of order"):
		require.Equal(h.t, 1, used, ask)
	case used == 1:
		told += ", an ID used"
	case used != 0:
		told += fmt.Sprintf(", %d IDs used", used)
	}
	return told, body
}

var row = regexp.MustCompile(`<tr[^>]*>\s*<td`)

// answer sends a request as it stands, and returns what came, in words, and the body.
func (h *host) answer(ask string) (told, body string) {
	h.t.Helper()
	c, err := net.Dial("tcp", h.http)
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, c.Close()) }()
	require.NoError(h.t, c.SetDeadline(time.Now().Add(patience)))
	head, content, _ := strings.Cut(ask, "\n\n")
	line, headers, _ := strings.Cut(head, "\n")
	method, _, _ := strings.Cut(line, " ")
	line += " HTTP/1.1\nHost: localhost\nConnection: close\n"
	if headers != "" {
		line += headers + "\n"
	}
	_, err = io.WriteString(c, strings.ReplaceAll(line, "\n", "\r\n")+"\r\n"+content)
	require.NoError(h.t, err)
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	require.NoError(h.t, err)
	read, err := io.ReadAll(res.Body)
	require.NoError(h.t, errors.Join(err, res.Body.Close()))
	return strings.TrimSpace(strconv.Itoa(res.StatusCode) + " " + words(res.Header.Get("Content-Type"), string(read))), string(read)
}

// words says what a body is.
func words(contentType, body string) string {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	var fields map[string]any
	switch id, err := strconv.ParseInt(body, 10, 64); {
	case body == "", body == "0":
		return body
	case err == nil:
		told := "an ID"
		for tag, first := range begins {
			if id >= first && id < first+1_000_000 {
				told = "an ID of " + tag
			}
		}
		if mediaType != "text/plain" {
			told += " as " + mediaType
		}
		return told
	case json.Unmarshal([]byte(body), &fields) == nil:
		switch {
		case fields["code"] != nil:
			return fmt.Sprint(fields["code"])
		case fields["errorMsg"] != nil:
			return "errorMsg"
		case fields["workerId"] != nil:
			return "decoded"
		default:
			return "Spring"
		}
	case strings.Contains(body, "Whitelabel"):
		return "a page"
	case mediaType == "text/html":
		if n := len(row.FindAllString(body, -1)); n != tags {
			return fmt.Sprintf("%d tags", n)
		}
		return "all tags"
	default:
		return fmt.Sprintf("%d lines", strings.Count(body, "\n"))
	}
}
