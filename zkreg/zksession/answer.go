package zksession

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"
)

// words say what a code of ZooKeeper's (KeeperException.Code) means, by go-zookeeper's text for it, where that
// doesn't.
var words = map[string]string{ //nolint:gochecknoglobals // never written to
	zk.ErrNoAuth.Error():       "not authorised (-102)",
	zk.ErrSessionMoved.Error(): "the session has moved to another server (-118)",
	"unknown error: -6":        "it is older than what leafd needs (-6)",
	"unknown error: -119":      "this server is read-only: it has no quorum (-119)",
	"unknown error: -122":      "the request took the servers too long (-122)",
	"unknown error: -124":      "it wants clients to log in with SASL, which leafd doesn't do (-124)",
	"unknown error: -125":      "a quota is used up: look at it with listquota, and raise it with setquota (-125)",
	"unknown error: -127":      "it throttles requests: it is overloaded, or its limits are too low (-127)",
}

// answerError is a server's answer that it did not do what it was asked for.
type answerError struct {
	asked, words string
	is           []error // go-zookeeper's, and Config.Refused
}

func (e *answerError) Error() string { return e.asked + ": " + e.words }

func (e *answerError) Unwrap() []error { return e.is }

func wordsOf(err error) string {
	return cmp.Or(words[err.Error()], strings.TrimPrefix(err.Error(), "zk: "))
}

// Answered reports whether err is a server's answer, known or not, and what it means. Anything else says that
// it isn't known whether a write was done: only the errors of the connection, which are a closed list.
func Answered(err error) (what string, answered bool) {
	if told := (*answerError)(nil); errors.As(err, &told) {
		return told.words, true
	}
	// As a session in memory has them.
	return "", slices.ContainsFunc([]error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNotEmpty}, func(is error) bool { return errors.Is(err, is) })
}

// isConnection reports whether go-zookeeper's error is the connection's: no server answered.
func isConnection(err error) bool {
	return slices.ContainsFunc([]error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired}, func(is error) bool { return errors.Is(err, is) })
}
