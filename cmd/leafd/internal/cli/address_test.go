package cli

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

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
			cfg := captured(t, invocation{args: tc.args})
			require.Equal(t, tc.advertise, cfg.Listen.Advertise)
			require.Equal(t, tc.node, cfg.Node)
			printed := leafd(t, append([]string{"config"}, tc.args...)...).OK(t)
			require.Regexp(t, `(?m)^node +`+regexp.QuoteMeta(tc.node)+` `, printed)
		})
	}
}
