package main

import (
	"errors"
	"net"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// addresses is a machine's list, in the form of net.InterfaceAddrs.
func addresses(t *testing.T, cidrs ...string) func() ([]net.Addr, error) {
	t.Helper()
	list := []net.Addr{&net.UnixAddr{Name: "neither"}}
	for _, cidr := range cidrs {
		ip, network, err := net.ParseCIDR(cidr)
		require.NoError(t, err)
		list = append(list, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	return func() ([]net.Addr, error) { return list, nil }
}

func TestDeriveAdvertise(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, listen string
		machine      []string
		want         string
		warned       bool
	}{
		{"the host itself", "10.1.2.3:8080", []string{"192.168.0.9/24"}, "10.1.2.3:8080", false},
		{"loopback when asked for", "127.0.0.1:9", []string{"192.168.0.9/24"}, "127.0.0.1:9", false},
		{"IPv6", "[2001:db8::1]:80", nil, "[2001:db8::1]:80", false},
		{"IPv4 in IPv6", "[::ffff:10.0.0.1]:80", nil, "10.0.0.1:80", false},
		{"name", "localhost:80", []string{"192.168.0.9/24"}, "127.0.0.1:80", false},
		{"every address", "0.0.0.0:80", []string{"127.0.0.1/8", "192.168.0.9/24", "10.0.0.1/8"}, "192.168.0.9:80", false},
		{"no host", ":80", []string{"127.0.0.1/8", "169.254.1.1/16", "10.0.0.1/8"}, "10.0.0.1:80", false},
		{"every IPv6 address", "[::]:80", []string{"::1/128", "fe80::1/64", "2001:db8::5/64", "10.0.0.1/8"}, "10.0.0.1:80", false},
		{"IPv6 alone", ":80", []string{"::1/128", "fe80::1/64", "2001:db8::5/64"}, "[2001:db8::5]:80", false},
		{"nothing but loopback", ":80", []string{"127.0.0.1/8", "::1/128"}, "127.0.0.1:80", true},
		{"port that is not known yet", "127.0.0.1:0", nil, "127.0.0.1:0", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, warning, err := deriveAdvertise(t.Context(), tc.listen, addresses(t, tc.machine...))
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.warned, warning != "")
		})
	}
	_, _, err := deriveAdvertise(t.Context(), ":80", func() ([]net.Addr, error) { return nil, errors.New("no netlink") })
	require.ErrorContains(t, err, "no netlink")
	_, _, err = deriveAdvertise(t.Context(), "no.such.host.invalid:80", addresses(t))
	require.ErrorContains(t, err, "the host has no address")
	_, _, err = deriveAdvertise(t.Context(), "80", addresses(t))
	require.Error(t, err)
}

func TestAdvertiseAndNodeAreDerived(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name            string
		args            []string
		advertise, node string
	}{
		{"from listen", []string{"--listen=127.0.0.1:9090"}, "127.0.0.1:9090", "127.0.0.1:9090"},
		{"node from advertise", []string{"--advertise=10.0.0.5:80"}, "10.0.0.5:80", "10.0.0.5:80"},
		{"all set", []string{"--advertise=10.0.0.5:80", "--node=ids-1"}, "10.0.0.5:80", "ids-1"},
		{"IPv6", []string{"--advertise=[2001:db8::5]:80"}, "[2001:db8::5]:80", "[2001:db8::5]:80"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg := captured(t, cli{args: tc.args})
			require.Equal(t, tc.advertise, cfg.Advertise)
			require.Equal(t, tc.node, cfg.Node)
			printed := leafd(t, append([]string{"config"}, tc.args...)...).ok(t)
			require.Regexp(t, `(?m)^node +`+regexp.QuoteMeta(tc.node)+` `, printed)
		})
	}
}
