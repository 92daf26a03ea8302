package settings

import (
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

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

func TestSocketPaths(t *testing.T) {
	t.Parallel()
	require.Empty(t, CheckSocketPath("/run/leafd/leafd.sock"))
	require.Empty(t, CheckSocketPath(strings.Repeat("x", 107)))
	for path, says := range map[string]string{
		"": "want a path", "@leafd": "abstract", "a\x00": "abstract", strings.Repeat("x", 108): "has 108 bytes",
	} {
		require.Contains(t, CheckSocketPath(path), says)
	}
}

// Every level that the settings allow is one of zerolog's.
func TestLogLevels(t *testing.T) {
	for _, s := range logSettings() {
		if s.Name != "log-level" {
			continue
		}
		for _, level := range s.Words {
			parsed, err := zerolog.ParseLevel(level)
			require.NoError(t, err)
			require.NotEqual(t, zerolog.NoLevel, parsed)
		}
	}
}

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

// A reload takes another user or password for the same database, unless the password of the start stands in a file.
func TestPasswordBesideItsFileWaitsForARestart(t *testing.T) {
	t.Parallel()
	const before, next = "leaf@tcp(db)/leaf", "leaf:next@tcp(db)/leaf"
	for file, want := range map[string]string{"": next, "/password": before} {
		c := Config{Segment: Segment{MySQL: before, PasswordFile: file}}
		require.Equal(t, want, c.WithLive(Config{Segment: Segment{MySQL: next}}).Segment.MySQL)
	}
}

// A row that names a field gives it a value of the field's kind, its default lies
// within its bounds, and a reload takes rows with a field only.
func TestRows(t *testing.T) {
	t.Parallel()
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			parsed, err := s.parse(&yaml.Node{Kind: yaml.ScalarNode, Value: s.Def})
			if s.Def != "" || s.bounds == (bounds{}) {
				require.NoError(t, err)
			}
			require.NotEmpty(t, s.Usage)
			require.Equal(t, s.bounds != bounds{}, s.Kind == KindNumber || s.Kind == KindDuration, "bounds")
			if s.to == nil {
				require.False(t, s.Live)
				return
			}
			var c Config
			field := s.to(&c)
			v := Values{All: []*Value{{Setting: s, Parsed: parsed}}}
			v.fill(&c)
			require.EqualValues(t, parsed, reflect.ValueOf(field).Elem().Interface())
		})
	}
}
