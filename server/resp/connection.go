package resp

import (
	"bytes"
	"fmt"
	"strconv"
)

func (s *Session) ping(args [][]byte) {
	switch {
	case !s.accepts(1, 2):
	case len(args) == 0:
		s.reply.word("PONG")
	default:
		s.reply.text(args[0])
	}
}

func (s *Session) selectDB(args [][]byte) {
	if !s.accepts(2, 2) {
		return
	}
	switch n, err := strconv.Atoi(string(args[0])); {
	case err != nil:
		s.fail("ERR", "value is not an integer or out of range")
	case n != 0:
		s.fail("ERR", "DB index is out of range")
	default:
		s.reply.word("OK")
	}
}

// hello answers HELLO [2|3 [AUTH user password] [SETNAME name]].
func (s *Session) hello(args [][]byte) {
	proto := s.reply.proto
	if len(args) > 0 {
		n, err := strconv.Atoi(string(args[0]))
		if err != nil {
			s.fail("ERR", "Protocol version is not an integer or out of range")
			return
		}
		if n != 2 && n != 3 {
			s.fail("NOPROTO", "unsupported protocol version")
			return
		}
		proto, args = n, args[1:]
	}
	var user, password, name []byte
	auth, named := false, false
	for rest := args; len(rest) > 0; {
		switch {
		case bytes.EqualFold(rest[0], []byte("AUTH")) && len(rest) >= 3:
			user, password, auth, rest = rest[1], rest[2], true, rest[3:]
		case bytes.EqualFold(rest[0], []byte("SETNAME")) && len(rest) >= 2:
			name, named, rest = rest[1], true, rest[2:]
		default:
			s.fail("ERR", "Syntax error in HELLO option '"+string(shown(rest[0]))+"'")
			return
		}
	}
	if auth && !s.authorize(user, password) {
		return
	}
	if named && !s.setName(name) {
		return
	}
	s.reply.proto = proto
	s.reply.pairs(7)
	field := func(name, value string) { s.reply.text([]byte(name)); s.reply.text([]byte(value)) }
	field("server", "leafd")
	field("version", Compatible)
	s.reply.text([]byte("proto"))
	s.reply.int(int64(proto))
	s.reply.text([]byte("id"))
	s.reply.int(s.id)
	field("mode", "standalone")
	field("role", "master")
	s.reply.text([]byte("modules"))
	s.reply.array(0)
}

// auth answers AUTH [user] password.
func (s *Session) auth(args [][]byte) {
	if !s.accepts(2, 3) {
		return
	}
	user := []byte(nil)
	if len(args) == 2 {
		user, args = args[0], args[1:]
	}
	if s.authorize(user, args[0]) {
		s.reply.word("OK")
	}
}

// authorize answers where the password is wrong. Where none is set any is right for the default
// user, as in Redis.
func (s *Session) authorize(user, password []byte) bool {
	ok, open := s.src.Authorize(user, password)
	switch {
	case ok || open && string(user) == "default":
		return true
	case open && user == nil:
		s.fail("ERR", "AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	default:
		s.fail("WRONGPASS", "invalid username-password pair or user is disabled.")
	}
	return false
}

// client answers CLIENT SETNAME, GETNAME, SETINFO and ID.
func (s *Session) client(args [][]byte) {
	if !s.accepts(2, keptArgs) {
		return
	}
	var of [16]byte
	switch sub := string(lower(of[:0], args[0])); {
	case sub == "id" && len(args) == 1:
		s.reply.int(s.id)
	case sub == "getname" && len(args) == 1:
		if s.name == "" {
			s.reply.nothing()
			return
		}
		s.reply.text([]byte(s.name))
	case sub == "setname" && len(args) == 2:
		if s.setName(args[1]) {
			s.reply.word("OK")
		}
	case sub == "setinfo" && len(args) == 3: // lib-name and lib-ver, which nothing here shows
		s.reply.word("OK")
	case sub == "id", sub == "getname", sub == "setname", sub == "setinfo":
		s.fail("ERR", "wrong number of arguments for 'client|"+sub+"' command")
	default:
		s.fail("ERR", "unknown subcommand '"+string(shown(args[0]))+"'.")
	}
}

// setName answers where the name can't be one.
func (s *Session) setName(name []byte) bool {
	if bytes.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' }) {
		s.fail("ERR", "Client names cannot contain spaces, newlines or special characters.")
		return false
	}
	if len(name) > nameBytes {
		s.fail("ERR", fmt.Sprintf("the name has more than %d bytes", nameBytes))
		return false
	}
	s.name = string(name)
	return true
}
