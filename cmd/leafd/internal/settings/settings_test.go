package settings

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/deploy"
	"github.com/leafd/leafd/server/limits"
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
}

// Without an address that peers can use there is nothing to be known by.
func TestIdentityOnAMachineThatHasLoopbackAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, node string
		servers    []string
		refused    bool
	}{
		{"in a cluster", "", []string{"127.0.0.1:1"}, true},
		{"in a cluster, with a name", "ids-1", []string{"127.0.0.1:1"}, false},
		{"alone", "", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := Config{Node: tc.node, Listen: Listen{Address: ":80"}, ZooKeeper: ZooKeeper{Servers: tc.servers}}
			v := &Values{All: []*Value{{Setting: Setting{Name: "listen"}}}}
			c.validateIdentity(t.Context(), v, addresses(t, "127.0.0.1/8"))
			require.Equal(t, tc.refused, len(v.problems) > 0, v.problems)
			require.Len(t, c.Warnings, 1)
		})
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

// The tags of each setting are whole, their bounds are those of the code, and the sample explains it.
func TestTable(t *testing.T) {
	t.Parallel()
	require.Len(t, All(), len(fieldsOf(reflect.TypeFor[Config](), nil)), "each is in the sample")
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			def := typed(s.Def)
			parsed, err := s.parse(&def)
			require.NoError(t, err)
			var c Config
			require.True(t, reflect.TypeOf(parsed).ConvertibleTo(s.of(&c).Type()))
			require.NotEmpty(t, s.Usage)
			require.NotEmpty(t, s.Group)
			require.Equal(t, s.Range != "", s.Kind == KindNumber || s.Kind == KindDuration)
			if s.Kind == KindList {
				require.NotEmpty(t, s.Words)
			}
			_, explained, found := strings.Cut("\n"+deploy.Sample, "\n"+s.Name+":")
			require.True(t, found)
			above := strings.TrimSuffix("\n"+deploy.Sample, "\n"+s.Name+":"+explained)
			require.Equal(t, s.Live, strings.HasSuffix(above, "\n# Taken at a reload (SIGHUP)."))
			switch s.Name {
			case "rate-limit":
				require.Equal(t, fmt.Sprintf("0 to %d", limits.MaxRate), s.Range)
			case "log-level":
				for _, level := range s.Words {
					_, err := zerolog.ParseLevel(level)
					require.NoError(t, err)
				}
			}
		})
	}
}

// What a shell, a unit file or a copied line leaves around a value is taken off, or refused where it stands.
func TestPlainText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" a \t\r\n": "a", "\u00a0a\u00a0": "a", "a b": "a b", "it's": "it's", "a'": "a'", "": "", " ": "",
	} {
		got, err := plain(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, says := range map[string]string{
		"a\nb": "no line end", "a\x00b": "no NUL", "a\tb": "invisible", "a\u200bb": "invisible", "\ufeffa": "invisible",
		`"a"`: "without the quotes", " 'a' ": "without the quotes", "`a`": "without the quotes", `"`: "without the quotes",
	} {
		_, err := plain(text)
		require.ErrorContains(t, err, says, "%q", text)
	}
}
