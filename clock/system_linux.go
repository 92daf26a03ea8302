package clock

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads CLOCK_BOOTTIME (clock_gettime(2)), which unlike
// CLOCK_MONOTONIC counts suspend. Where it can't be read the monotonic clock
// stands in: a suspend then looks like a step, which is refused, not believed.
func bootTime(mono time.Duration) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return mono
	}
	return time.Duration(ts.Nano())
}

// timers holds idle timerfds; one that the collector drops is closed by os.File.
//
//nolint:gochecknoglobals // a free list of kernel objects, without state of its own
var timers = sync.Pool{New: func() any {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return (*os.File)(nil)
	}
	return os.NewFile(uintptr(fd), "timerfd")
}}

// sleepPrecisely sleeps d on a timerfd (timerfd_create(2)). The goroutine parks
// in the runtime's poller, so neither a thread nor a processor is held, and the
// kernel wakes it to within some ten microseconds. It reports whether it slept.
func sleepPrecisely(d time.Duration) bool {
	file, _ := timers.Get().(*os.File)
	if file == nil {
		return false
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	var armErr error
	err = conn.Control(func(fd uintptr) {
		spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
		armErr = unix.TimerfdSettime(int(fd), 0, &spec, nil)
	})
	if err != nil || armErr != nil {
		return false
	}
	var expirations [8]byte
	if _, err := file.Read(expirations[:]); err != nil {
		return false
	}
	timers.Put(file)
	return true
}
