package resp

import (
	"bytes"
	"errors"
	"fmt"
)

// Bounds of a command.
const (
	// MaxCommand is how many bytes a command may have, with all that frames it.
	MaxCommand = 16 << 10
	// maxArgs is how many arguments one may have, its name among them.
	maxArgs = 4096
	// keptArgs is how many of them are kept: no command that leafd has takes more.
	keptArgs = 16
)

// Errors of the protocol, in the words of Redis where it has the same. The connection ends
// after them: where the next command begins can't be known. A web page can have a browser send an
// HTTP request to this port, with commands in its body: as no line is a command, none is carried out.
var (
	errArrayLength  = errors.New("invalid multibulk length")
	errStringLength = errors.New("invalid bulk length")
	errStringEnd    = errors.New("a string is not followed by CRLF")
	errNoArray      = errors.New("expected '*': commands are arrays of strings, not lines, and not HTTP")
)

// command is a command as it stands in the buffer that it was read into. Parsing keeps:
//
//  1. A command is either whole or not there yet: nothing of it has any effect
//     before its last byte is there.
//  2. What a client announces reserves nothing: no length that it sends is taken for
//     more than MaxCommand or maxArgs, and what exceeds them ends the connection at once.
//  3. How the bytes were split on their way makes no difference.
//  4. Nothing is allocated.
type command struct {
	args [keptArgs][]byte // the first n of them, in the read buffer
	n    int              // arguments that were sent, the name among them; 0: nothing is to be answered
	raw  []byte           // all of it
}

// again returns how many commands at the beginning of b are equal to this one, byte for byte;
// most at most.
func (c *command) again(b []byte, most int) (n int) {
	size := len(c.raw)
	all := min(most, len(b)/size)
	if all > 0 && bytes.HasPrefix(b, c.raw) && bytes.Equal(b[:(all-1)*size], b[size:all*size]) { // each as the one before, as a rule
		return all
	}
	for n < most && bytes.HasPrefix(b, c.raw) {
		b = b[size:]
		n++
	}
	return n
}

// kept returns the arguments that are there.
func (c *command) kept() [][]byte { return c.args[:min(c.n, keptArgs)] }

// parse reads the command at the beginning of b, and returns how many bytes it has; 0: it is
// not whole yet.
func (c *command) parse(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if b[0] != '*' {
		return 0, errNoArray
	}
	n, used := parseLength(b[1:])
	switch {
	case used == 0:
		return 0, nil
	case used < 0, n > maxArgs:
		return 0, errArrayLength
	}
	at := 1 + used
	c.n = max(n, 0) // as Redis, which takes "*-1" for nothing
	for i := range c.n {
		if at == len(b) {
			return 0, nil
		}
		if b[at] != '$' {
			return 0, fmt.Errorf("expected '$', got '%c'", printable(b[at]))
		}
		size, used := parseLength(b[at+1:])
		switch {
		case used == 0:
			return 0, nil
		case used < 0, size < 0, at+1+used+size+len("\r\n") > MaxCommand:
			return 0, errStringLength
		}
		at += 1 + used
		if len(b) < at+size+len("\r\n") {
			return 0, nil
		}
		if b[at+size] != '\r' || b[at+size+1] != '\n' {
			return 0, errStringEnd
		}
		if i < keptArgs {
			c.args[i] = b[at : at+size : at+size]
		}
		at += size + len("\r\n")
	}
	return at, nil
}

// parseLength reads a decimal number and the CRLF behind it. used is how many bytes they
// have; 0: they are not whole yet; less: there are none.
func parseLength(b []byte) (value, used int) {
	const digits = 9 // beyond any bound
	negative := len(b) > 0 && b[0] == '-'
	at := 0
	if negative {
		at = 1
	}
	for first := at; at < len(b); at++ {
		switch c := b[at]; {
		case '0' <= c && c <= '9' && at-first < digits:
			value = value*10 + int(c-'0')
		case c == '\r' && at > first:
			if at+1 == len(b) {
				return 0, 0
			}
			if b[at+1] != '\n' {
				return 0, -1
			}
			if negative {
				value = -value
			}
			return value, at + len("\r\n")
		default:
			return 0, -1
		}
	}
	return 0, 0
}

// printable returns c, or a point for what an answer should not have.
func printable(c byte) byte {
	if c < ' ' || c > '~' {
		return '.'
	}
	return c
}
