package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/leafd/leafd/test/clitest"
)

// Requests that are wrong, made from a grammar. All of it follows from a seed and a
// number, in any order of the conversations.
//
// Nothing here may be a request for an ID that leafd has to answer: each asks for
// IDs of the tag victim, or for snowflake IDs, and none of them may be given one.
// So what fasthttp takes though it is odd is not here: a version such as HTTP/9.9, a
// request without Host, lines that end in LF alone, Transfer-Encoding: identity, any
// extension of a chunk, and Content-Length beside chunks, of which the chunks count and
// which closes the connection.

// ending is how a client leaves.
type ending uint8

const (
	readAll     ending = iota // sends its end, and reads until the daemon closes
	closeUnread               // closes without reading
	resetting                 // the same, with a reset
)

// conversation is what one client sends over one connection.
type conversation struct {
	good  []string // targets of good requests; their answers are read before more is sent
	piped []string // targets of good requests that are sent in one go with the bad ones
	heads int      // of the bad ones, the first that are HEAD requests and well framed
	bad   []byte
	count int // of the malformed requests in bad
	end   ending
}

// author makes conversations.
type author struct{ *rand.Rand }

func newAuthor(seed uint64, number int) author {
	return author{rand.New(rand.NewPCG(seed, uint64(number)))}
}

func (a author) pick(choices ...string) string { return choices[a.IntN(len(choices))] }

// odds is true once in n times.
func (a author) odds(n int) bool { return a.IntN(n) == 0 }

// goodTargets are requests that have to be answered with so many IDs.
func goodTargets() map[string]int {
	return map[string]int{
		"/api/snowflake/get/good": 1, "/api/segment/get/good": 1, "/api/snowflake/get/good?n=3": 3, "/api/segment/get/good?x=%zz": 1,
		"/api/segment/get/g%6Fod?n=1": 1, "http://leafd.example/api/segment/get/good": 1,
	}
}

func goodRequest(target string) string {
	return "GET " + target + " HTTP/1.1\r\nHost: leafd.example\r\nAccept: text/plain\r\n\r\n"
}

// public returns a conversation with the public surface.
func (a author) public() conversation {
	var c conversation
	targets := make([]string, 0, 6)
	for target := range goodTargets() {
		targets = append(targets, target)
	}
	slices.Sort(targets)
	if a.odds(4) {
		c.good = append(c.good, a.pick(targets...))
	}
	var bad bytes.Buffer
	if a.odds(4) {
		for range 1 + a.IntN(3) {
			c.piped = append(c.piped, a.pick(targets...))
		}
	}
	// Requests with a fault after which the connection goes on, and then one more.
	for range a.IntN(4) {
		bad.WriteString(a.tolerable())
		c.count++
	}
	if len(c.piped) == 0 && c.count == 0 && a.odds(8) {
		bad.WriteString("HEAD " + a.badTarget() + " HTTP/1.1\r\nHost: a\r\n\r\n")
		c.heads, c.count = 1, 1
	}
	whole := bad.Len()
	bad.WriteString(a.broken(len(c.piped) > 0))
	c.count++
	if a.odds(5) {
		bad.WriteString(a.pick("\r\n\r\n", "\x00\x00\x00", "garbage", strings.Repeat("\xff", 300), "GET /api/segment/get/victim HTTP/1.1\r\nHost"))
	}
	c.bad = bad.Bytes()
	switch {
	case len(c.piped) > 0: // their answers have to be read
	case a.odds(6):
		c.end = closeUnread
	case a.odds(6):
		c.end = resetting
	}
	if a.odds(5) { // half sent; what was wrong by then is
		c.bad = c.bad[:whole+a.IntN(len(c.bad)-whole)]
	}
	return c
}

// tolerable returns a request that is refused, and the next one of its connection
// still read.
func (a author) tolerable() string {
	method, target := "GET", a.badTarget()
	if a.odds(4) {
		method, target = a.pick("PROPFIND", "PUT", "PATCH", "DELETE", "TRACE", "BREW", "get", "X-1"), a.victim()
	}
	if a.odds(8) {
		return method + " " + target + " HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /"
	}
	if a.odds(8) {
		return method + " " + target + " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nGET\r\n0\r\n\r\n"
	}
	return method + " " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"
}

func (a author) victim() string {
	return a.pick("/api/segment/get/victim", "/api/snowflake/get/victim")
}

// badTarget is a target that fits the request line, and names nothing.
func (a author) badTarget() string {
	switch a.IntN(5) {
	case 0: // a key that can't be one
		key := a.pick("", "%", "%2", "%zz", "%0", "a%", "%00", "%0a", "%7f", "%ff", "%c3%28", "%ed%a0%80", "%f8%80", "\xff\xfe", "v%e2%80", strings.Repeat("k", 129),
			strings.Repeat("%6b", 129), strings.Repeat("%", 50), strings.Repeat("k", 2000))
		return a.pick("/api/segment/get/", "/api/snowflake/get/") + key + a.pick("", "?n=1", "#x")
	case 1: // a count that can't be one
		return a.victim() + "?" + a.pick("n=0", "n=-1", "n=+1", "n=x", "n=", "n", "n=1.0", "n=1e3", "n=0x1", "n=10001", "n=99999999999999999999", "n=1&n=1", "n=1&n=2",
			"%6e=0", "n=%00", "n=%zz", "n=1%00", "n=1;", "n==1", "x=1&n=-0", "n=\xb2")
	case 2: // a path with one segment more, or less
		return a.pick("/api/segment/get/victim/1", "/api/segment/get/victim//1", "/api/segment/get", "/api/segment//get", "//api//segments//get/victim",
			"/api/segment/GET/victim", "/API/segment/get/victim", "/api/segment/get\\victim", "/api/segment%2fget/victim", "/./api/none", "/api/segment/./get/victim", "/api/snowflake/get/a/b")
	case 3: // IDs that aren't any
		return "/api/snowflake/decode/" +
			a.pick("", "x", "-1", "%2B1", "1.5", "9223372036854775808", "99999999999999999999999", "0x10", "%", "%00", "1%201", "１", strings.Repeat("9", 1000))
	default: // another form
		return a.pick("*", "http://leafd.example", "http:///api/segment/get/", "http://leafd.example/api/segment/get/%zz", "https://x/api/segment/get/", "/api/overview/x", "/api/segments/victim",
			"/api/segments?limit=0", "/api/segments?limit=1&limit=2", "/metrics/", "/debug/pprof/heap", "/%2e%2e/%2e%2e/etc/passwd", "/../../etc/passwd", "/\xc0\xae\xc0\xae/", "/?"+strings.Repeat("&", 1000))
	}
}

// broken returns a request after which the daemon has to close. Where it follows on
// good ones in one piece, it is small enough for a socket to take in one go, and has no
// body that ends too early: fasthttp drops the answers it hasn't sent yet then. (Their
// IDs are lost, as when the client is gone: no other client gets them.)
func (a author) broken(piped bool) string {
	switch n := a.IntN(9); {
	case n < 2:
		return a.brokenLine()
	case n < 4:
		return a.brokenHeader(piped)
	case n < 6:
		return a.brokenLength(piped)
	case n < 8 && !piped:
		return a.brokenChunks()
	default:
		return a.noise(piped)
	}
}

func (a author) brokenLine() string {
	const rest = "\r\nHost: a\r\n\r\n"
	v := a.victim()
	return a.pick(
		"GET"+rest, "GET "+rest, " "+rest, "GET "+v+rest, v+rest, "GET "+v+" "+rest, v+" HTTP/1.1"+rest, " "+v+" HTTP/1.1"+rest,
		"GET "+v+" HTTP/1."+rest, "GET "+v+" HTTP/"+rest, "GET "+v+" HTTP/11"+rest, "GET "+v+" http/1.1"+rest, "GET "+v+" HTTP/2"+rest, "GET "+v+" HTTP/10.1"+rest,
		"GET "+v+" HTTP/-1.1"+rest, "GET "+v+" HTTP/1.1 "+rest, "GET "+v+" HTTP/1.1x"+rest, "GET "+v+" XTTP/1.1"+rest, "GET "+v+" FTP/1.1"+rest,
		"GET "+v+" x HTTP/1.1"+rest, "GET\t"+v+"\tHTTP/1.1"+rest, "GET "+v+"\tHTTP/1.1"+rest,
		"G\x00T "+v+" HTTP/1.1"+rest, "G\xc3\xa9T "+v+" HTTP/1.1"+rest, "G(T) "+v+" HTTP/1.1"+rest, "GET: "+v+" HTTP/1.1"+rest, "\x00GET "+v+" HTTP/1.1"+rest,
		"GET "+v+"\x00 HTTP/1.1"+rest, "GET "+v+"\x01 HTTP/1.1"+rest, "GET "+v+"\x7f HTTP/1.1"+rest, "GET \x00"+v+" HTTP/1.1"+rest, "GET "+v+"\r HTTP/1.1"+rest,
		"GET api/segment/get/victim HTTP/1.1"+rest, "GET victim HTTP/1.1"+rest, "GET leafd.example:80 HTTP/1.1"+rest, "GET \\api\\segment HTTP/1.1"+rest,
		"CONNECT leafd.example:443 HTTP/1.1"+rest, "CONNECT "+v+" HTTP/1.1"+rest, "GET http:// HTTP/1.1"+rest, "GET http://[::1"+v+" HTTP/1.1"+rest, "GET http://a b"+v+" HTTP/1.1"+rest,
		"GET http://%zz"+v+" HTTP/1.1"+rest, "GET http://a@b@c"+v+"//x HTTP/1.1"+rest, "GET :"+v+" HTTP/1.1"+rest,
		strings.Repeat("G", 9000)+" "+v+" HTTP/1.1"+rest, "GET "+v+strings.Repeat("/", 9000)+" HTTP/1.1"+rest, "GET "+v+" HTTP/1."+strings.Repeat("1", 9000)+rest,
		"GET /"+strings.Repeat("a", 4<<a.IntN(14))+"/ HTTP/1.1"+rest,
	)
}

func (a author) brokenHeader(small bool) string {
	line := "GET " + a.victim() + " HTTP/1.1\r\n"
	flood := 100
	if !small {
		flood = 5000
	}
	header := a.pick(
		"Host", "Host a", ": a", " : a", "Host : a", "Host\t: a", "\tHost: a", " folded: a", "X: a\r\n folded", "X: a\r\n\tfolded", "X: a\r\n\r folded",
		"X\x00Y: a", "X: a\x00b", "X\x7f: a", "X(Y): a", "X\xff: a", "X Y: a", "X: a\rb", "X: a\x01b", "X: a\x7fb", "\x00: a", "@: a", "\"x\": a", "X\r: a", "=", "\xef\xbb\xbfX: a",
		"Host: a\r\nHost: b", "Host: a b", "Host: a/b", "Host: %zz", "Host: [::1", "Host: a\x00", "Host: "+strings.Repeat("a", 5000)+"\r\nX: "+strings.Repeat("b", 5000),
		"X: "+strings.Repeat("x", 9000), strings.Repeat("x", 9000)+": x", strings.Repeat("X: y\r\n", flood)+"Z: z", strings.Repeat("Cookie: a=b; c\r\n", flood)+"Z: z",
	)
	return line + header + "\r\n\r\n"
}

func (a author) brokenLength(small bool) string {
	method := a.pick("POST", "PUT", "GET", "DELETE", "PATCH")
	line := method + " " + a.pick("/api/segments", "/api/segment/get/victim", "/api/snowflake/get/victim", "/api/segments/victim") + " HTTP/1.1\r\nHost: a\r\n"
	length := a.pick("-1", "+1", "x", "1x", "0x10", "1e1", "1.0", "1 1", "1,1", "1, 2", "", ",", "--1", "99999999999999999999", "9223372036854775808", "18446744073709551617", "-9223372036854775809",
		"１", "\xff", "\x00", "65537", "70000", "2147483648", "5\r\nContent-Length: 6", "5\r\nContent-Length: x", "x\r\nTransfer-Encoding: chunked",
		"6\r\nTransfer-Encoding: gzip", "5\r\nContent-Length: 5, 6", "5;x", "\"5\"")
	body := a.pick("", "hello", "{}", strings.Repeat("x", 100), "0\r\n\r\n", "GET "+a.victim()+" HTTP/1.1\r\nHost")
	if !small && a.odds(20) {
		body = strings.Repeat("y", 1+a.IntN(200_000))
	}
	return line + "Content-Length: " + length + "\r\n\r\n" + body
}

func (a author) brokenChunks() string {
	line := a.pick("POST", "GET", "PATCH") + " " + a.pick("/api/segments", "/api/segment/get/victim", "/api/snowflake/get/victim") + " " + a.pick("HTTP/1.1", "HTTP/1.1", "HTTP/1.0") + "\r\nHost: a\r\n"
	if a.odds(3) {
		coding := a.pick("gzip", "chunked, chunked", "xchunked", "chunked;x", "chunked\r\nTransfer-Encoding: chunked", "chunked\r\nTransfer-Encoding: identity", "", ",", "chunked, gzip",
			"\x00chunked", "chunked\x0b", "chunked, x", "x\r\nTransfer-Encoding: chunked", "CHUNKED, ", "gzip, deflate")
		return line + "Transfer-Encoding: " + coding + "\r\n\r\n" + a.pick("0\r\n", "zz\r\nab\r\n0\r\n\r\n", "5\r\nhel")
	}
	size := strconv.FormatInt(int64(1+a.IntN(1<<20)), 16)
	chunks := a.pick("zz\r\nab\r\n0\r\n\r\n", "-1\r\na\r\n0\r\n\r\n", "+1\r\na\r\n0\r\n\r\n", "0x1\r\na\r\n0\r\n\r\n", "\r\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "1\r\na0\r\n\r\n", "5\r\nab\r\n0\r\n\r\n",
		"ffffffffffffffff\r\na\r\n0\r\n\r\n", "10000000000000001\r\na\r\n0\r\n\r\n", "7fffffffffffffff\r\na\r\n", "1\na\n0\n\n", "1 \x00\r\na\r\n0\r\n\r\n", "2\r\na\r\n0\r\n",
		"1\r\na\r\n0\r\nX\r\n\r\n", "1\r\na\r\n0\r\n: x\r\n\r\n", "0\r\nContent-Length: x", "1", "1\r", "1\r\n", "1\r\na", "1\r\na\r", "1\r\na\r\n", size+"\r\nabc\r\n0\r\n\r\n",
		"1\r\na\r\n"+strings.Repeat("0", 100)+"q\r\n", strings.Repeat("1;"+strings.Repeat("x", 3)+"\r\na\r\n", 50)+"q\r\n")
	if a.odds(20) { // more than the body may have
		chunks = strings.Repeat("1000\r\n"+strings.Repeat("c", 4096)+"\r\n", 17+a.IntN(20)) + "0\r\n\r\n"
	}
	return line + "Transfer-Encoding: chunked\r\n\r\n" + chunks
}

// noise is no HTTP at all.
func (a author) noise(small bool) string {
	most := 1000
	if !small && a.odds(10) {
		most = 100_000
	}
	random := make([]byte, 1+a.IntN(most))
	for i := range random {
		random[i] = byte(a.Uint32())
	}
	return a.pick("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", "*2\r\n$4\r\nINCR\r\n$6\r\nvictim\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"ruok", "\x00\x00\x00\x2c\x00\x00\x00\x00", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "\r\n\r\n\r\n\r\n", strings.Repeat("\n", 200), strings.Repeat("\x00", 1+a.IntN(5000)), "HTTP/1.1 200 OK\r\n\r\n", "<?xml version=\"1.0\"?>", string(random))
}

// admin returns a conversation with the admin surface: a change that can't be made,
// by a client that may.
func (a author) admin() conversation {
	method, target := "POST", "/api/segments"
	body := a.pick(`{`, `}`, `[]`, `null`, `""`, `1`, `{"tag":"x"`, `{"tag":"x"}`, `{"tag":"x","step":0}`, `{"tag":"x","step":-1}`, `{"tag":"x","step":1.5}`, `{"tag":"x","step":1e3}`, `{"tag":"x","step":"1x"}`,
		`{"tag":"x","step":true}`, `{"tag":"x","step":9223372036854775808}`, `{"tag":"x","step":1,"max_id":-1}`, `{"tag":"x","step":1,"max_id":9223372036854775807}`, `{"tag":"","step":1}`, `{"tag":"\u0000","step":1}`,
		`{"tag":5,"step":1}`, `{"tag":"x","step":1,"x":1}`, `{"tag":"x","step":1}{}`, `{"tag":"x","step":1}x`, `{"tag":"x","step":1,"step":0}`, `{"tag":"victim","step":1}`, "{\"tag\":\"x\",\"step\":1,\"description\":\""+strings.Repeat("d", 300)+`"}`,
		"{\"tag\":\""+strings.Repeat("t", 129)+`","step":1}`, strings.Repeat("[", 20_000), strings.Repeat(`{"tag":`, 5_000), "\xff\xfe{\x00}\x00", "\xef\xbb\xbf{}", `{"tag":"x\ny","step":1}`, `{"tag":"x","step":"١"}`)
	switch a.IntN(3) {
	case 0:
		method, target = "PATCH", a.pick("/api/segments/victim", "/api/segments/none", "/api/segments/%zz", "/api/segments/")
		body = a.pick(`{}`, `{"step":0}`, `{"step":null}`, `{"max_id":1}`, `{"step":"x"}`, `[]`, `{"description":5}`, `{"step":1`, ``)
	case 1:
		method, target = a.pick("POST", "DELETE", "PUT"), a.pick("/api/segments/%zz", "/api/segments/none/x", "/api/segments/%00", "/api/segments/victim/", "/api/segments/none")
	}
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", method, target, clitest.AdminToken, len(body), body)
	c := conversation{bad: []byte(text), count: 1}
	if a.odds(8) {
		c.bad = c.bad[:a.IntN(len(c.bad))]
	}
	if a.odds(8) {
		c.end = resetting
	}
	return c
}
