package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/condition"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

func TestCause(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 3306}
	dial := func(err error) error {
		return fmt.Errorf("reading the tags: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: err})
	}
	const secret = "pa55word"
	denied := &mysql.MySQLError{Number: 1045, Message: "Access denied for user 'leaf'@'10.0.0.5' " + secret}
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"refused", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connection refused by 10.0.0.7:3306"},
		{"no route", dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "no connection to 10.0.0.7:3306"},
		{"too late", dial(os.ErrDeadlineExceeded), "no answer from 10.0.0.7:3306"},
		{"late, with the text of another", fmt.Errorf("%w within 2s: %v", segment.ErrLate, denied), "no answer from the database"}, //nolint:errorlint // as segment cuts it
		{"reset", dial(os.NewSyscallError("read", syscall.ECONNRESET)), "no connection to 10.0.0.7:3306"},
		{"a broken connection", fmt.Errorf("fetching: %w", driver.ErrBadConn), "no connection to the database"},
		{"no such name", dial(&net.DNSError{Err: "no such host", Name: "db.internal"}), "the name db.internal is not known"},
		{"certificate", dial(&tls.CertificateVerificationError{Err: x509.HostnameError{Host: secret, Certificate: &x509.Certificate{}}}), "the certificate of 10.0.0.7:3306 is not accepted"},
		{"the database's number alone", fmt.Errorf("fetch: %w", denied), "the database answers with error 1045: check user, password and database of the DSN"},
		{"read-only", &mysql.MySQLError{Number: 1290, Message: secret}, "the database answers with error 1290: the server takes no writes: it is a replica, or a failover is under way"},
		{"ZooKeeper's server", fmt.Errorf("%w: %w", worker.ErrUnreachable, &zksession.ServerError{Server: "10.0.0.1:2181", Err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}), "connection refused by ZooKeeper at 10.0.0.1:2181"},
		{"ZooKeeper hangs", fmt.Errorf("%w: no answer: %w", worker.ErrUnreachable, context.DeadlineExceeded), "no answer from ZooKeeper"},
		{"the disk", fmt.Errorf("the ceiling could not be recorded: %w", &os.PathError{Op: "fdatasync", Path: "worker.json", Err: syscall.ENOSPC}), "the ceiling could not be recorded: fdatasync worker.json: no space left on device"},
		{"ours", fmt.Errorf("%w: %w", snowflake.ErrCeilingReached, worker.ErrClockJumped), "ceiling reached: clock jumped ahead"},
		{"another's", fmt.Errorf("fenced: %w", &net.AddrError{Err: secret}), ""},
		{"another's beside ours", errors.Join(worker.ErrFenced, &net.AddrError{Err: secret}), ""},
		{"a byte that is no text", errors.New("a\xff"), ""},
		{"long", errors.New(strings.Repeat("ä", 300)), strings.Repeat("ä", 150) + "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := cause(condition.Condition{Info: &condition.Info{}, Err: test.err})
			if test.name == "ours" {
				require.Equal(t, test.err.Error(), got)
				return
			}
			require.Equal(t, test.want, got)
			require.NotContains(t, got, secret)
		})
	}
}
