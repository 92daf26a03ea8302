package client

import (
	"fmt"
	"math"
)

// parseIDs reads a response of n IDs (client.K2). It returns ErrBadResponse.
func parseIDs(body []byte, n int) ([]int64, error) {
	ids := make([]int64, 0, n)
	last := int64(0)
	for len(body) > 0 {
		if len(ids) == n {
			return nil, fmt.Errorf("%w: more than the %d IDs asked for", ErrBadResponse, n)
		}
		id, rest, ok := parseLine(body)
		if !ok {
			return nil, fmt.Errorf("%w: line %d of %d is not an ID: %.40q", ErrBadResponse, len(ids)+1, n, body)
		}
		if id <= last && len(ids) > 0 {
			return nil, fmt.Errorf("%w: %d follows %d: IDs of a batch grow", ErrBadResponse, id, last)
		}
		ids, last, body = append(ids, id), id, rest
	}
	if len(ids) != n {
		return nil, fmt.Errorf("%w: %d IDs of the %d asked for", ErrBadResponse, len(ids), n)
	}
	return ids, nil
}

// parseLine reads a decimal number and the newline that ends it.
func parseLine(b []byte) (id int64, rest []byte, ok bool) {
	for i, c := range b {
		switch {
		case c == '\n':
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
