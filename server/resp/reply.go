package resp

import (
	"strconv"

	"github.com/leafd/leafd/snowflake"
)

// reply is the answers of a connection that are not written yet.
type reply struct {
	b     []byte
	proto int // 2 or 3
}

// AppendInt appends a number as RESP has it.
func AppendInt(b []byte, n int64) []byte {
	return append(snowflake.AppendDecimal(append(b, ':'), n), '\r', '\n')
}

// AppendIntText appends a number as a string of bytes.
func AppendIntText(b []byte, n int64) []byte {
	var digits [20]byte
	return appendText(b, snowflake.AppendDecimal(digits[:0], n))
}

// appendInts appends n numbers, 1 at least: first and those that follow it, which are the text
// of the one before with its last digits counted up.
func appendInts(b []byte, first int64, n int) []byte {
	last := len(b)
	b = AppendInt(b, first)
	for i := 1; i < n; i++ {
		next := len(b)
		b = append(b, b[last:]...)
		digit := len(b) - len("0\r\n")
		for ; b[digit] == '9'; digit-- {
			b[digit] = '0'
		}
		if digit > next {
			b[digit]++
		} else { // one digit more than before
			b = AppendInt(b[:next], first+int64(i))
		}
		last = next
	}
	return b
}

// AppendArray appends what begins an array of n answers.
func AppendArray(b []byte, n int) []byte { return appendHead(b, '*', n) }

// AppendError appends an error. What would end its line becomes a point.
func AppendError(b []byte, code, message string) []byte {
	b = append(append(b, '-'), code...)
	return append(appendShown(append(b, ' '), message), '\r', '\n')
}

// appendShown appends text of an error, which may be a client's.
func appendShown[T string | []byte](b []byte, text T) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			b = append(b, '.')
		} else {
			b = append(b, c)
		}
	}
	return b
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

func (r *reply) int(n int64)   { r.b = AppendInt(r.b, n) }
func (r *reply) array(n int)   { r.b = AppendArray(r.b, n) }
func (r *reply) word(s string) { r.b = append(append(append(r.b, '+'), s...), '\r', '\n') }

// text answers with a string of bytes.
func (r *reply) text(s []byte) { r.b = appendText(r.b, s) }

func appendText(b, s []byte) []byte {
	return append(append(appendHead(b, '$', len(s)), s...), '\r', '\n')
}

// page answers with text for people.
func (r *reply) page(s []byte) {
	if r.proto == 2 {
		r.text(s)
		return
	}
	r.b = append(appendHead(r.b, '=', len("txt:")+len(s)), "txt:"...)
	r.b = append(append(r.b, s...), '\r', '\n')
}

// pairs begins a map of n pairs.
func (r *reply) pairs(n int) {
	if r.proto == 2 {
		r.array(2 * n)
		return
	}
	r.b = appendHead(r.b, '%', n)
}

// nothing answers that there is nothing.
func (r *reply) nothing() {
	if r.proto == 2 {
		r.b = append(r.b, "$-1\r\n"...)
		return
	}
	r.b = append(r.b, "_\r\n"...)
}
