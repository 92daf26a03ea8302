package client

import (
	"fmt"
	"math"
)

// run is IDs that follow one another.
type run struct {
	first int64
	begin int64 // how many IDs of the batch come before it
}

// parseRanges reads a response of n IDs, first-last a line. It returns ErrBadResponse.
func parseRanges(body []byte, n int) ([]run, error) {
	var runs []run
	last, have := int64(-1), int64(0)
	for len(body) > 0 {
		first, rest, ok := parseNumber(body, '-')
		var end int64
		if ok {
			end, rest, ok = parseNumber(rest, '\n')
		}
		if !ok {
			return nil, fmt.Errorf("%w: line %d is not first-last: %.40q", ErrBadResponse, len(runs)+1, body)
		}
		if first <= last || end < first {
			return nil, fmt.Errorf("%w: %d-%d follows %d: IDs of a batch grow", ErrBadResponse, first, end, last)
		}
		if end-first >= int64(n)-have {
			return nil, fmt.Errorf("%w: more than the %d IDs asked for", ErrBadResponse, n)
		}
		runs = append(runs, run{first, have})
		have += end - first + 1
		last, body = end, rest
	}
	if have != int64(n) {
		return nil, fmt.Errorf("%w: %d IDs of the %d asked for", ErrBadResponse, have, n)
	}
	return runs, nil
}

// parseNumber reads a decimal number and the byte that ends it.
func parseNumber(b []byte, end byte) (id int64, rest []byte, ok bool) {
	for i, c := range b {
		switch {
		case c == end:
			return id, b[i+1:], i > 0
		case c < '0' || c > '9' || id > (math.MaxInt64-int64(c-'0'))/10:
			return 0, nil, false
		case i > 0 && b[0] == '0':
			return 0, nil, false // leafd writes no leading zeros
		}
		id = id*10 + int64(c-'0')
	}
	return 0, nil, false
}
