package conn

import (
	"net"

	"golang.org/x/sys/unix"
)

// unixPeer returns the user and the process that connected to a unix socket, as the
// kernel recorded them.
func unixPeer(nc net.Conn) (uid uint32, pid int32, ok bool) {
	c := beneath[*net.UnixConn](nc)
	if c == nil {
		return 0, 0, false
	}
	raw, err := (*c).SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	var cred *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil || err != nil {
		return 0, 0, false
	}
	return cred.Uid, cred.Pid, true
}
