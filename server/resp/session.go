package resp

import (
	"io"
	"sync/atomic"
)

// Mode is a kind of ID.
type Mode uint8

// The kinds of IDs.
const (
	Snowflake Mode = iota
	Segment
)

// Form is how a batch is written.
type Form uint8

// The forms.
const (
	Integers Form = iota
	Strings       // of the same digits
	Ranges        // pairs of strings: the first and the last ID of each
)

// Source is where the answers of one connection come from. Answer knows the errors of the
// other methods.
type Source interface {
	// Next returns up to most IDs, 1 at least: first and those that follow it. n is how
	// many. It doesn't retain key.
	Next(m Mode, key []byte, most int) (first int64, n int, err error)
	// Batch appends an array of as many IDs as count says to pending, answers that are not
	// written yet. Where held is true, all of it is to be written at once, and Release called
	// after that. It retains neither key nor count.
	Batch(m Mode, f Form, key, count, pending []byte) (all []byte, held bool, err error)
	// Turn waits until other connections had their turn, after CommandsATurn commands that arrived together.
	Turn()
	// Release ends the use of what Batch has returned.
	Release()
	// Decode returns what a snowflake ID is made of.
	Decode(id []byte) ([]Field, error)
	// Authorize makes the client the bearer of password, and user if that has another name than
	// "default" or nil; a wrong one changes nothing. open tells that none is set.
	Authorize(user, password []byte) (ok, open bool)
	// Forget makes it the bearer of none.
	Forget()
	// Info returns what INFO tells the client about the server.
	Info() []byte
	// Answer returns code, in capitals, and message of the answer to an error.
	Answer(err error) (code, message string)
	// Refused counts an error that is answered.
	Refused(code string)
}

// Field is a part of a snowflake ID.
type Field struct {
	Name   string
	Number int64
	Text   string // in place of Number; empty: none
}

// CommandsATurn is how many commands that arrived together are carried out before other
// connections have their turn. What is carried out as one counts as one.
const CommandsATurn = 16

// Sizes of a connection's buffers.
const (
	// firstRead holds a hundred commands that arrived together; it grows to MaxCommand for
	// one that needs it.
	firstRead = 4 << 10
	// flushBytes is how much is answered before it is written even though more commands
	// are there.
	flushBytes = 16 << 10
	// maxAgain is how many equal commands are carried out with one: a run of them has no
	// longer answer than a batch that isn't held has.
	maxAgain = 127
)

// Session is one connection. It keeps:
//
//  1. A connection holds MaxCommand bytes that were read, flushBytes and one answer
//     that are not written, and nothing else that a client chooses but a name of nameBytes.
//     A client that doesn't read has no more of its commands read.
//  2. The answers of all commands that arrived together are written at once, up to
//     flushBytes.
//  3. Commands are carried out in their order, each after the one before was
//     answered; a batch is written before the next command is looked at. Equal ones for
//     one ID each that follow one another, as those of a client that pipelines do, may be
//     carried out together: their answers are the same, and as many.
//  4. A connection gives way to the others after CommandsATurn commands.
type Session struct {
	rw    io.ReadWriter
	src   Source
	reply reply
	cmd   command
	rest  []byte // what arrived behind the command that is carried out
	taken int    // of rest: equal commands that were carried out with it

	id     int64
	name   string
	form   Form // Integers, or Strings after LEAF.STRINGS on
	ending bool // no command follows

	in   []byte
	have int // bytes that were read, and are not used yet
}

// ids counts the connections, for CLIENT ID.
var ids atomic.Int64 //nolint:gochecknoglobals // as unique as the process

// New returns a connection that nothing was read from.
func New(rw io.ReadWriter, src Source) *Session {
	s := &Session{rw: rw, src: src, id: ids.Add(1), in: make([]byte, firstRead)}
	s.reply.proto = 2
	return s
}

// Serve answers what it reads until the client wants no more, and then returns nil. It returns the error of a
// read, io.EOF included, or of a write.
func (s *Session) Serve() error {
	for !s.ending {
		n, err := s.rw.Read(s.in[s.have:])
		s.have += n
		used, werr := s.answerAll(s.in[:s.have])
		if werr != nil {
			return werr
		}
		s.have = copy(s.in, s.in[used:s.have])
		if err != nil {
			return err
		}
		if s.have == len(s.in) { // below MaxCommand: parse refuses what is as long
			s.in = append(make([]byte, 0, MaxCommand), s.in...)[:MaxCommand]
		}
	}
	return nil
}

// Begun reports whether a command was read in part.
func (s *Session) Begun() bool { return s.have > 0 }

// answerAll carries out the commands in b, and returns how many bytes those that are whole
// have.
func (s *Session) answerAll(b []byte) (used int, err error) {
	for commands := 1; used < len(b) && !s.ending; commands++ {
		if commands%(CommandsATurn+1) == 0 {
			s.src.Turn()
		}
		n, err := s.cmd.parse(b[used:])
		if err == nil && n == 0 && len(b)-used >= MaxCommand {
			err = errArrayLength
		}
		if err != nil {
			s.fail("ERR", "Protocol error: "+err.Error())
			s.ending = true
			break
		}
		if n == 0 {
			break
		}
		used += n
		if s.cmd.n == 0 {
			continue
		}
		s.cmd.raw, s.rest, s.taken = b[used-n:used], b[used:], 0
		if err := s.execute(); err != nil {
			return used, err
		}
		used += s.taken
		if len(s.reply.b) >= flushBytes {
			if err := s.flush(); err != nil {
				return used, err
			}
		}
	}
	return used, s.flush()
}

// flush writes what is answered.
func (s *Session) flush() error {
	if len(s.reply.b) == 0 {
		return nil
	}
	_, err := s.rw.Write(s.reply.b)
	s.reply.b = s.reply.b[:0]
	return err
}

// fail answers with an error.
func (s *Session) fail(code, message string) {
	s.src.Refused(code)
	s.reply.b = AppendError(s.reply.b, code, message)
}

// refuse answers with an error of the source.
func (s *Session) refuse(err error) {
	code, message := s.src.Answer(err)
	s.fail(code, message)
}
