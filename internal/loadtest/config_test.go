package loadtest_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/internal/loadtest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *loadtest.Config){
		"no URL":             func(c *loadtest.Config) { c.URLs = nil },
		"mode":               func(c *loadtest.Config) { c.Mode = "x" },
		"no key":             func(c *loadtest.Config) { c.Keys = nil },
		"empty key":          func(c *loadtest.Config) { c.Keys = []string{""} },
		"batch":              func(c *loadtest.Config) { c.Batch = 0 },
		"rate":               func(c *loadtest.Config) { c.Rate = -1 },
		"no number for rate": func(c *loadtest.Config) { c.Rate = math.NaN() },
		"clients":            func(c *loadtest.Config) { c.Clients = 0 },
		"fewer than URLs":    func(c *loadtest.Config) { c.URLs = []string{"http://a", "http://b"}; c.Clients = 1 },
		"duration":           func(c *loadtest.Config) { c.Duration = 0 },
		"timeout":            func(c *loadtest.Config) { c.Timeout = 0 },
		"URL":                func(c *loadtest.Config) { c.URLs = []string{"localhost:8080"} },
		"scheme":             func(c *loadtest.Config) { c.URLs = []string{"ftp://localhost"} },
		"no host":            func(c *loadtest.Config) { c.URLs = []string{"http://:8080"} },
		"query":              func(c *loadtest.Config) { c.URLs = []string{"http://a/?b"} },
		"empty socket":       func(c *loadtest.Config) { c.URLs = []string{"unix:"} },
		"password":           func(c *loadtest.Config) { c.URLs = []string{"http://a:hunter2@b"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config("http://127.0.0.1:1")
			change(&cfg)
			_, err := loadtest.Run(t.Context(), cfg)
			require.ErrorIs(t, err, loadtest.ErrConfig)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
}
