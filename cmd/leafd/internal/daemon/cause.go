package daemon

import (
	"context"
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// longestCause is how many bytes of an error's own words are shown.
const longestCause = 300

// cause returns in a few words why c is so, for every client that may read the overview
// (docs/SECURITY.md). It keeps:
//
//   - Nothing that another service has said is in it: of an answer of the database
//     only the number, of a certificate only that it is refused. The addresses of the
//     database and of ZooKeeper are.
//   - Only errors of leafd, of the operating system and of SQLite have their own
//     words. One of another kind, also inside of these, has none: "".
func cause(c condition.Condition) string {
	err := c.Err
	if err == nil || c.Private {
		return ""
	}
	if said := sqlstore.Said(err); said != "" {
		return said
	}
	where := "the database"
	var network *net.OpError
	var name *net.DNSError
	var zk *zksession.ServerError
	switch {
	case errors.As(err, &zk):
		where = "ZooKeeper at " + zk.Server
	case errors.As(err, &network) && network.Addr != nil:
		where = network.Addr.String()
	case errors.Is(err, worker.ErrUnreachable), errors.Is(err, segment.ErrGuardAway):
		where = "ZooKeeper"
	}
	var refused *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return "the name " + name.Name + " is not known"
	case errors.As(err, &refused):
		return "the certificate of " + where + " is not accepted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused by " + where
	case errors.Is(err, segment.ErrLate), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), network != nil && network.Timeout():
		return "no answer from " + where
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, driver.ErrBadConn), network != nil:
		return "no connection to " + where
	case !speaksForItself(err):
		return ""
	}
	return condition.Clip(err.Error(), longestCause)
}

// speaksForItself reports whether every error in err's tree is of a kind with words that
// leafd, the operating system or SQLite has written.
func speaksForItself(err error) bool {
	kind := reflect.TypeOf(err)
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	from := kind.PkgPath()
	if !strings.HasPrefix(from, "github.com/leafd/leafd/") && !strings.HasPrefix(from, "modernc.org/sqlite") &&
		!slices.Contains([]string{"errors", "fmt", "io/fs", "os", "syscall", "context"}, from) || !utf8.ValidString(err.Error()) {
		return false
	}
	switch wrapped := err.(type) { //nolint:errorlint // the tree is walked
	case interface{ Unwrap() error }:
		inner := wrapped.Unwrap()
		return inner == nil || speaksForItself(inner)
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(wrapped.Unwrap(), func(inner error) bool { return !speaksForItself(inner) })
	}
	return true
}
