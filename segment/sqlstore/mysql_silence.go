package sqlstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/leafd/leafd/segment"
)

// driverLog keeps when the driver last met a server that didn't answer in time. Of that its error
// says "invalid connection" alone, and what happened goes to its log.
type driverLog struct{ silent atomic.Int64 } // UnixNano

// said is one for all connections: it decides on words alone.
var said = &driverLog{} //nolint:gochecknoglobals // see above

// silentLately is how long a time-out counts for the errors that follow it.
const silentLately = time.Second

// Print implements mysql.Logger.
func (l *driverLog) Print(v ...any) {
	for _, one := range v {
		if err, ok := one.(error); ok && errors.Is(err, os.ErrDeadlineExceeded) {
			l.silent.Store(time.Now().UnixNano()) //nolint:forbidigo // words alone depend on it
		}
	}
}

// reword returns what says of a lost connection that the server didn't answer within, where it was so.
func (l *driverLog) reword(within time.Duration) func(error) error {
	return func(err error) error {
		if !errors.Is(err, mysql.ErrInvalidConn) || time.Now().UnixNano()-l.silent.Load() > int64(silentLately) { //nolint:forbidigo // as above
			return err
		}
		return silentError{err, fmt.Sprintf("%s in %s", segment.ErrLate, within)}
	}
}

// silentError is a lost connection to a server that didn't answer.
type silentError struct {
	error

	says string
}

// Error implements error.
func (e silentError) Error() string {
	return strings.ReplaceAll(e.error.Error(), mysql.ErrInvalidConn.Error(), e.says)
}

// Unwrap returns segment.ErrLate, and the error.
func (e silentError) Unwrap() []error { return []error{segment.ErrLate, e.error} }
