package zookeepertest

import (
	"net/netip"
	"os"
	"syscall"
)

// heldPort is a port that is bound and doesn't listen: connections are refused, and
// nobody else gets it. Nil holds none.
type heldPort struct{ fd int }

func holdPort(addr string) (*heldPort, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	syscall.CloseOnExec(fd)
	p := &heldPort{fd}
	err = p.share(true) // connections of before may linger on the port
	if err == nil {
		err = os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}))
	}
	if err == nil {
		err = p.share(false)
	}
	if err != nil {
		p.giveBack()
		return nil, err
	}
	return p, nil
}

// share tells whether a server may listen on the port beside us: the one whose port it
// is, so that there is no moment in which another could get it.
func (p *heldPort) share(yes bool) error {
	if p == nil {
		return nil
	}
	reuse := 0
	if yes {
		reuse = 1
	}
	return os.NewSyscallError("setsockopt", syscall.SetsockoptInt(p.fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, reuse))
}

// giveBack is called when the port's server listens, or will never do so again.
func (p *heldPort) giveBack() {
	if p != nil {
		_ = syscall.Close(p.fd) // the socket was only there to be in the way
	}
}
