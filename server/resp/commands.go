package resp

import (
	"bytes"
	"strings"
)

// Compatible is the version of the Redis that gives these answers.
const Compatible = "7.0.0"

// nameBytes bounds the name that a client gives its connection.
const nameBytes = 128

// execute carries out the command that was parsed. It keeps:
//
//  1. An ID is asked for only once nothing in the command can be refused any more.
//  2. An ID is in one answer at most: none is kept, and none is issued again when a
//     client disconnects before it has read it.
//
// An error is one of writing: the connection is over.
func (s *Session) execute() error {
	args := s.cmd.args[1:max(1, min(s.cmd.n, keptArgs))]
	var name [16]byte
	switch string(lower(name[:0], s.cmd.args[0])) {
	case "incr":
		if s.accepts(2, 2) {
			s.one(Segment, args[0])
		}
	case "incrby": // redis-py's incr()
		switch {
		case !s.accepts(3, 3):
		case string(args[1]) != "1":
			s.fail("BAD_COUNT", "INCRBY takes 1 alone: LEAF.SEGMENT tag count brings many")
		default:
			s.one(Segment, args[0])
		}
	case "leaf.segment":
		return s.ids(Segment, args)
	case "leaf.snowflake":
		return s.ids(Snowflake, args)
	case "leaf.range":
		return s.ranges(args)
	case "leaf.strings":
		s.strings(args)
	case "leaf.decode":
		if s.accepts(2, 2) {
			s.decode(args[0])
		}
	case "ping":
		s.ping(args)
	case "echo":
		if s.accepts(2, 2) {
			s.reply.text(args[0])
		}
	case "hello":
		s.hello(args)
	case "auth":
		s.auth(args)
	case "client":
		s.client(args)
	case "select":
		s.selectDB(args)
	case "info":
		s.reply.page(s.src.Info())
	case "multi", "exec": // redis-py's pipelines, unless they are told otherwise: it shows the second's error
		s.fail("ERR", "leafd has no transactions: send a pipeline without MULTI, in redis-py pipeline(transaction=False)")
	case "cluster": // in the words of a Redis that is in none
		s.fail("ERR", "This instance has cluster support disabled")
	case "reset":
		if s.accepts(1, 1) {
			s.reply.proto, s.name, s.form = 2, "", Integers
			s.src.Forget()
			s.reply.word("RESET")
		}
	case "quit":
		s.reply.word("OK")
		s.ending = true
	default:
		s.unknown()
	}
	return nil
}

// lower appends name in lower case; what is too long for a command of leafd's, nothing.
func lower(b, name []byte) []byte {
	if len(name) > cap(b) {
		return b
	}
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b
}

// accepts reports whether the command has from least to most arguments, its name among them,
// and answers where it has not.
func (s *Session) accepts(least, most int) bool {
	if s.cmd.n >= least && s.cmd.n <= most {
		return true
	}
	s.fail("ERR", "wrong number of arguments for '"+strings.ToLower(string(s.cmd.args[0]))+"' command")
	return false
}

// one answers a command for one ID, and those of its like that follow.
func (s *Session) one(m Mode, key []byte) {
	first, n, err := s.src.Next(m, key, 1+s.cmd.again(s.rest, maxAgain))
	if err != nil {
		s.refuse(err)
		return
	}
	if s.form == Strings {
		for i := range int64(n) {
			s.reply.b = AppendIntText(s.reply.b, first+i)
		}
	} else {
		s.reply.b = appendInts(s.reply.b, first, n)
	}
	s.taken = (n - 1) * len(s.cmd.raw)
}

// ids answers LEAF.SEGMENT and LEAF.SNOWFLAKE.
func (s *Session) ids(m Mode, args [][]byte) error {
	if !s.accepts(2, 3) {
		return nil
	}
	if len(args) == 1 {
		s.one(m, args[0])
		return nil
	}
	return s.batch(m, s.form, args[0], args[1])
}

// ranges answers LEAF.RANGE kind key count.
func (s *Session) ranges(args [][]byte) error {
	if !s.accepts(4, 4) {
		return nil
	}
	var kind [16]byte
	switch string(lower(kind[:0], args[0])) {
	case "snowflake":
		return s.batch(Snowflake, Ranges, args[1], args[2])
	case "segment":
		return s.batch(Segment, Ranges, args[1], args[2])
	}
	s.fail("BAD_QUERY", "LEAF.RANGE kind key count: kind is snowflake or segment")
	return nil
}

// strings answers LEAF.STRINGS on|off: with on the numbers of INCR and LEAF commands come as
// strings on this connection, for drivers that have no integers beyond 2^53.
func (s *Session) strings(args [][]byte) {
	if !s.accepts(2, 2) {
		return
	}
	switch {
	case bytes.EqualFold(args[0], []byte("on")):
		s.form = Strings
	case bytes.EqualFold(args[0], []byte("off")):
		s.form = Integers
	default:
		s.fail("BAD_QUERY", "LEAF.STRINGS takes on or off")
		return
	}
	s.reply.word("OK")
}

// batch answers with count IDs.
func (s *Session) batch(m Mode, f Form, key, count []byte) error {
	all, held, err := s.src.Batch(m, f, key, count, s.reply.b)
	if err != nil {
		s.refuse(err)
		return nil
	}
	if !held {
		s.reply.b = all
		return nil
	}
	defer s.src.Release()
	s.reply.b = s.reply.b[:0] // they are in all
	_, err = s.rw.Write(all)
	return err
}

func (s *Session) decode(id []byte) {
	fields, err := s.src.Decode(id)
	if err != nil {
		s.refuse(err)
		return
	}
	s.reply.pairs(len(fields))
	for _, f := range fields {
		s.reply.text([]byte(f.Name))
		switch {
		case f.Text != "":
			s.reply.text([]byte(f.Text))
		case s.form == Strings:
			s.reply.b = AppendIntText(s.reply.b, f.Number)
		default:
			s.reply.int(f.Number)
		}
	}
}

// unknown answers a command that leafd doesn't have, in the words of Redis.
func (s *Session) unknown() {
	s.src.Refused("ERR")
	b := append(s.reply.b, "-ERR unknown command '"...)
	b = appendShown(b, shown(s.cmd.args[0]))
	b = append(b, "', with args beginning with: "...)
	begin := len(b)
	for _, arg := range s.cmd.kept()[1:] {
		if len(b)-begin > shownBytes {
			break
		}
		b = append(appendShown(append(b, '\''), shown(arg)), "' "...)
	}
	s.reply.b = append(b, '\r', '\n')
}

// shownBytes is how much of an argument is in an error.
const shownBytes = 128

func shown(arg []byte) []byte { return arg[:min(len(arg), shownBytes)] }
