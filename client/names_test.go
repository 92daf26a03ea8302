package client

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAddressesOfANameComeAndGo: each is a daemon, which stays the same one while it is there.
func TestAddressesOfANameComeAndGo(t *testing.T) {
	c := newClient(t, func(c *Config) { c.Addresses = []string{"http://leafd:8080", "http://10.0.0.9:8080"} })
	var now time.Duration
	c.mono = func() time.Duration { return now }
	answer, failure := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, error(nil)
	c.resolve = func(context.Context, string) ([]string, error) { return answer, failure }
	r := requests{until: make(map[*daemon]time.Duration)}
	names := func() []string {
		var names []string
		for _, d := range c.known(t.Context()) {
			names = append(names, d.name)
		}
		return names
	}
	all := []string{"http://leafd:8080 (10.0.0.1)", "http://leafd:8080 (10.0.0.2)", "http://leafd:8080 (10.0.0.3)", "http://10.0.0.9:8080"}
	require.Equal(t, all, names())
	before := c.known(t.Context())
	r.update(before)
	r.until[before[0]] = 1
	answer = []string{"10.0.0.3", "10.0.0.4"}
	require.Equal(t, all, names(), "it is looked up now and then")
	now += lookupEvery
	require.Equal(t, []string{"http://leafd:8080 (10.0.0.3)", "http://leafd:8080 (10.0.0.4)", "http://10.0.0.9:8080"}, names())
	require.Same(t, before[2], c.known(t.Context())[0])
	before[0].broke() // a request that was under way
	down, _ := before[0].state()
	require.False(t, down, "nothing asks for it any more")
	r.update(c.known(t.Context()))
	require.ElementsMatch(t, c.known(t.Context()), r.order)
	require.Empty(t, r.until)
	now += lookupEvery
	failure = errors.New("no such host")
	require.Len(t, names(), 3, "those from before stay")
}

// TestNameOfTLS: the certificate of an address is checked for the name of the URL.
func TestNameOfTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(newFake(t))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig
	next := func(ctx context.Context, name string) error {
		c := newClient(t, func(c *Config) {
			c.Addresses, c.HTTPClient = []string{"https://" + name + port}, &http.Client{Transport: &http.Transport{TLSClientConfig: trusted}}
		})
		c.resolve = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		_, err := c.Snowflake("order").Next(ctx)
		return err
	}
	require.NoError(t, next(within(t), "example.com"), "which the certificate has")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorContains(t, next(ctx, "leafd.test"), "at 127.0.0.1: ")
}
