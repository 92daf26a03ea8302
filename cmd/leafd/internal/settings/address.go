package settings

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resolveTimeout bounds the look-up of a host name in --listen.
const resolveTimeout = 5 * time.Second

// checkListen says what is wrong with an address to listen on, a unix socket's too; "" when nothing is.
func checkListen(listen string) string {
	if path, unix := strings.CutPrefix(listen, UnixScheme); unix {
		return CheckSocketPath(path)
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "want host:port, such as 127.0.0.1:8080 or [::]:8080, or unix:/path"
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "want a port from 0 to 65535"
	}
	return ""
}

// checkAdvertise says what is wrong with an address that others shall use.
func checkAdvertise(advertise string) string {
	addr, err := netip.ParseAddrPort(advertise)
	switch {
	case err != nil:
		return "want ip:port, such as 10.0.0.5:8080 or [2001:db8::5]:8080"
	case addr.Addr().Unmap().IsUnspecified():
		return "want the address of one machine; this is that of every one"
	case addr.Addr().Zone() != "":
		return "want an address without a zone: what follows on % is a name of this machine's alone"
	case addr.Port() == 0:
		return "want a port from 1 to 65535"
	default:
		return ""
	}
}

// deriveAdvertise returns the address that others reach us at: the one listened
// on, or, where that is every address of the machine, its first one that isn't
// loopback. A machine without one is reachable from itself alone, which is a
// warning. Port 0 stays 0: only the listener will know it.
func deriveAdvertise(ctx context.Context, listen string, addrs func() ([]net.Addr, error)) (advertise, warning string, err error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", "", fmt.Errorf("want host:port: %w", err)
	}
	ip := netip.IPv4Unspecified()
	if host != "" {
		if ip, err = resolve(ctx, host); err != nil {
			return "", "", err
		}
	}
	if ip.IsUnspecified() {
		list, err := addrs()
		if err != nil {
			return "", "", fmt.Errorf("the machine's addresses can't be read, so set --advertise: %w", err)
		}
		if ip = firstAddress(list); !ip.IsValid() {
			ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
			warning = "this machine has no address but loopback: other machines won't reach the advertised one; set --advertise"
		}
	}
	return net.JoinHostPort(ip.String(), port), warning, nil
}

// resolve returns the address that a listener on host gets: net.Listen prefers IPv4 too.
func resolve(ctx context.Context, host string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("the host has no address: %w", err)
	}
	four := slices.IndexFunc(ips, func(ip netip.Addr) bool { return ip.Unmap().Is4() })
	return ips[max(four, 0)].Unmap(), nil
}

// firstAddress returns the first address of the machine that others can use,
// IPv4 before IPv6; the zero Addr when there is none.
func firstAddress(list []net.Addr) netip.Addr {
	var six netip.Addr
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		ip := prefix.Addr().Unmap()
		switch {
		case ip.IsLoopback(), ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified():
		case ip.Is4():
			return ip
		case !six.IsValid():
			six = ip
		}
	}
	return six
}
