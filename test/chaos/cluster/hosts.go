package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// home is our address in the run's network, which no other process sees. Machine n is at
// 10.77.n.2, with us at 10.77.n.1, the other end of its line.
const home = "10.77.0.1"

// farHost is the machine of a daemon: a network namespace, and a line to ours (a pair
// of veth interfaces, veth(4)) on which packets can be lost.
type farHost struct {
	holder     *proctest.Process // keeps the namespace
	line       string            // our end
	near, addr string            // of our end, and of the machine
}

// MissingForNetworks names a program that networks need and the machine lacks, "" for
// none.
func MissingForNetworks() string {
	for _, program := range []string{"ip", "tc", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return program
		}
	}
	return ""
}

// SettleIn makes this process's network, a new one of its own, work, and tells whether
// machines can be joined to it. It returns an error where not even loopback works.
func SettleIn() (machines bool, err error) {
	err = run([][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "address", "add", home + "/32", "dev", "lo"},
	})
	if err != nil {
		return false, err
	}
	const probe = 250
	h, err := newFarHost(probe)
	if err == nil {
		err = errors.Join(h.lose(true, true), h.end())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos: no daemon will have a network of its own:", err)
	}
	return err == nil, nil
}

// newFarHost makes machine number n.
func newFarHost(n int) (*farHost, error) {
	cmd := exec.Command("sleep", "infinity") //nolint:noctx // it is ended by end
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	holder, err := proctest.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("cluster: a network of its own: %w", err)
	}
	h := &farHost{holder: holder, line: fmt.Sprintf("far%d", n), near: fmt.Sprintf("10.77.%d.1", n), addr: fmt.Sprintf("10.77.%d.2", n)}
	err = run([][]string{
		{"ip", "link", "add", h.line, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(holder.Pid())},
		{"ip", "address", "add", h.near + "/30", "dev", h.line},
		{"ip", "link", "set", h.line, "up"},
		h.inside("ip", "link", "set", "lo", "up"),
		h.inside("ip", "address", "add", h.addr+"/30", "dev", "eth0"),
		h.inside("ip", "link", "set", "eth0", "up"),
		h.inside("ip", "route", "add", "default", "via", h.near),
	})
	if err != nil {
		return nil, errors.Join(err, h.end())
	}
	return h, nil
}

// inside is the command that runs another one in the machine's network. It becomes
// that one, under the same process id.
func (h *farHost) inside(command ...string) []string {
	return append([]string{"nsenter", "--net=/proc/" + strconv.Itoa(h.holder.Pid()) + "/ns/net"}, command...)
}

// lose makes what is sent to the machine vanish, and what it sends, without an error to
// either side; connections stay open. False ends it.
func (h *farHost) lose(toIt, fromIt bool) error {
	// A token bucket that is smaller than any packet lets none through (tc-tbf(8)).
	drop := func(on bool, device string) []string {
		if on {
			return []string{"tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", "8bit", "burst", "1", "limit", "1"}
		}
		return []string{"tc", "qdisc", "replace", "dev", device, "root", "pfifo"}
	}
	return run([][]string{drop(toIt, h.line), h.inside(drop(fromIt, "eth0")...)})
}

// end gives the machine back; no process may run on it any more.
func (h *farHost) end() error { return h.holder.End(syscall.SIGKILL) }

// run runs commands one after the other.
func run(commands [][]string) error {
	for _, command := range commands {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		cancel()
		if err != nil {
			return fmt.Errorf("cluster: %v: %w: %s", command, err, out)
		}
	}
	return nil
}

// freeAddress is a free port of ip.
func freeAddress(ip string) (string, error) {
	address, err := proctest.FreeAddress()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	return net.JoinHostPort(ip, port), err
}
