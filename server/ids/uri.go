package ids

import (
	"bytes"
	"net/url"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/reply"
)

// withoutRepeated returns target with one slash where several follow each other in its path: the Java Leaf's
// Tomcat takes them for one, and clients have base URLs that end in a slash.
func withoutRepeated(target []byte) []byte {
	path := target
	if end := bytes.IndexAny(target, "?#"); end >= 0 {
		path = target[:end]
	}
	if !bytes.Contains(path, []byte("//")) {
		return target
	}
	short := make([]byte, 0, len(target))
	for i, c := range path {
		if c != '/' || i == 0 || path[i-1] != '/' {
			short = append(short, c)
		}
	}
	return append(short, target[len(path):]...)
}

// plainByte marks the bytes that are literal in a key: printable ASCII except % / ?
// and #.
var plainByte = func() (t [256]bool) { //nolint:gochecknoglobals // never written to
	for c := '!'; c <= '~'; c++ {
		t[c] = c != '%' && c != '/' && c != '?' && c != '#'
	}
	return t
}()

// splitKey splits the rest of matchIDs into the decoded key and the raw query. It
// allocates only for a key with escapes. It returns reply.ErrNotFound for a path with another
// segment, and reply.ErrBadKey for an invalid key.
func splitKey(rest []byte) (key, query []byte, err error) {
	i := 0
	for i < len(rest) && plainByte[rest[i]] {
		i++
	}
	switch {
	case i == len(rest):
		key = rest
	case rest[i] == '?' && bytes.IndexByte(rest[i:], '#') < 0:
		key, query = rest[:i], rest[i+1:]
	default:
		return splitUnusual(rest)
	}
	if len(key) == 0 || len(key) > segment.MaxTagChars {
		return nil, nil, reply.ErrBadKey
	}
	return key, query, nil
}

// splitUnusual is splitKey for fragments, escapes, bytes beyond ASCII, and slashes before the key and at the
// end, which the Java Leaf takes.
func splitUnusual(rest []byte) (key, query []byte, err error) {
	rest, _, _ = bytes.Cut(rest, []byte{'#'})
	raw, query, _ := bytes.Cut(rest, []byte{'?'})
	raw = bytes.Trim(raw, "/")
	if bytes.IndexByte(raw, '/') >= 0 {
		return nil, nil, reply.ErrNotFound
	}
	key, err = DecodeKey(raw)
	return key, query, err
}

// DecodeKey decodes percent-encoding strictly, and checks the result. It returns
// reply.ErrBadKey.
func DecodeKey(raw []byte) ([]byte, error) {
	if len(raw) > 3*segment.MaxTagBytes {
		return nil, reply.ErrBadKey
	}
	text, err := url.PathUnescape(string(raw))
	if err != nil {
		return nil, reply.ErrBadKey
	}
	key := []byte(text)
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	return key, nil
}

// CheckKey returns reply.ErrBadKey for an invalid key.
func CheckKey(key []byte) error {
	if len(key) == 0 || len(key) > segment.MaxTagBytes {
		return reply.ErrBadKey
	}
	plain := 0
	for plain < len(key) && plainByte[key[plain]] {
		plain++
	}
	if plain == len(key) && plain <= segment.MaxTagChars {
		return nil // as nearly every key is
	}
	if !utf8.Valid(key) || utf8.RuneCount(key) > segment.MaxTagChars {
		return reply.ErrBadKey
	}
	if bytes.IndexFunc(key, unicode.IsControl) >= 0 {
		return reply.ErrBadKey
	}
	return nil
}

// parseQuery returns n of a raw query, 0 when it has none, and whether it asks for ranges.
// It returns reply.ErrBadQuery or reply.ErrBadCount, and neither for a query without n and as: there, as
// in the Java Leaf, no parameter counts.
func (l *live) parseQuery(m mode, query []byte) (n int, ranges bool, err error) {
	if len(query) == 0 {
		return 0, false, nil
	}
	args := fasthttp.AcquireArgs()
	defer fasthttp.ReleaseArgs(args)
	args.ParseBytes(query)
	var count, as []byte
	counts, forms, unknown := 0, 0, false
	for name, value := range args.All() {
		switch string(name) {
		case "n":
			count, counts = value, counts+1
		case "as":
			as, forms = value, forms+1
		default:
			unknown = true
		}
	}
	switch {
	case counts+forms == 0:
		return 0, false, nil
	case unknown:
		return 0, false, reply.ErrBadQuery
	case forms > 1, forms == 1 && string(as) != "ranges":
		return 0, false, reply.ErrBadAs
	}
	most := l.most(m, forms == 1)
	n, ok := ParseCount(count, most)
	if counts != 1 || !ok {
		return 0, false, reply.ErrBadCount.With("n is given once, as a number from 1 to %d", most)
	}
	return n, forms == 1, nil
}

// ParseCount returns the number that b is in decimal, if it is one from 1 to most.
func ParseCount(b []byte, most int) (n int, ok bool) {
	n, err := fasthttp.ParseUint(b)
	return n, err == nil && n >= 1 && n <= most
}
