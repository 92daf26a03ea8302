package daemon

import (
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/conn"
)

// maxSockets is more than any service manager passes.
const maxSockets = 1024

// errSocket is returned for sockets that leafd was started with and can't serve: clients
// of a socket that is not served would wait for ever.
var errSocket = errors.New("sockets passed by systemd (LISTEN_FDS)")

// InheritedSockets returns the listening sockets that the process was started with, by name. It
// removes the variables that name them, so that programs which leafd runs get neither the variables
// nor the sockets. It returns an error for a descriptor that is no listening socket.
func InheritedSockets() (map[string]net.Listener, error) {
	// activation allocates room for as many as the variable says.
	if n, err := strconv.Atoi(os.Getenv("LISTEN_FDS")); err == nil && n > maxSockets {
		return nil, settings.Usagef("%w: LISTEN_FDS is %d: leafd serves three at most", errSocket, n)
	}
	files := activation.Files(true)
	known := []string{conn.Public.String(), conn.Admin.String(), conn.Redis.String()}
	sockets := make(map[string]net.Listener, len(files))
	for _, f := range files {
		name := f.Name()
		// A single socket of any other name is meant for the listener that leafd always has.
		if len(files) == 1 && !slices.Contains(known, name) {
			name = conn.Public.String()
		}
		ln, err := net.FileListener(f)
		_ = f.Close() // ln has a descriptor of its own
		switch {
		case err != nil:
			return nil, settings.Usagef("%w: %q is no listening stream socket: %w", errSocket, name, err)
		case !slices.Contains(known, name), sockets[name] != nil:
			return nil, settings.Usagef("%w: %q on %s: leafd serves one of each FileDescriptorName=%s", errSocket, name, ln.Addr(), strings.Join(known, ", "))
		}
		sockets[name] = ln
	}
	return sockets, nil
}
