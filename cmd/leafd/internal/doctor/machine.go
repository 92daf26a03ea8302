package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/server"
)

// ntp is the kernel's account of its clock, as adjtimex(2) has it.
type ntp struct {
	synchronised   bool
	estimatedError time.Duration
	leapSecond     bool // one is due
}

// looseClock is the estimated error beyond which a clock is reported. The
// threshold between daemons is five seconds.
const looseClock = time.Second

// ntp reports whether something keeps the kernel's clock right.
func (p *Patient) ntp(_ context.Context, r *report) {
	state, err := kernelClock()
	judgeNTP(r, state, err)
}

func judgeNTP(r *report, state ntp, err error) {
	const check, do = "ntp", "run chrony or systemd-timesyncd, and see that it reaches its servers: a clock that is set back stops IDs until it has caught up"
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err != nil:
		r.Warn(check, fmt.Sprintf("the kernel doesn't tell whether its clock is synchronised: %v", err), "see on the host whether the clock is; a container may not be allowed to ask")
	case !state.synchronised:
		r.Warn(check, "the kernel's clock is not synchronised", do)
	case state.estimatedError > looseClock:
		r.Warn(check, fmt.Sprintf("the kernel's clock is synchronised, with an estimated error of %s", state.estimatedError), do)
	case state.leapSecond:
		r.Warn(check, "a leap second is due: the kernel will step its clock by a second", "have NTP smear it, or expect IDs to be refused for a second")
	default:
		r.OK(check, "the kernel's clock is synchronised, estimated error %s", state.estimatedError)
	}
}

// openFiles reports whether there are files for as many connections as leafd can take.
func (p *Patient) openFiles(_ context.Context, r *report) {
	if files, err := daemon.OpenFiles(); err == nil {
		judgeFiles(r, files)
	}
}

func judgeFiles(r *report, files uint64) {
	const check = "open-files"
	do := fmt.Sprintf("LimitNOFILE=%d in the unit, or ulimit -n", server.DefaultMaxConns+daemon.ReservedFiles)
	switch n, err := daemon.Connections(files, 0, 1); {
	case err != nil:
		r.Fail(check, err, do)
	case n < server.DefaultMaxConns:
		r.Warn(check, fmt.Sprintf("%d files may be open at once, which is enough for %d connections and not for the %d that leafd can take", files, n, server.DefaultMaxConns), do)
	default:
		r.OK(check, "%d may be open at once, %d connections among them", files, n)
	}
}
