package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdvertiseAndNodeAreDerived(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--listen=127.0.0.1:9090": "127.0.0.1:9090", "--advertise=10.0.0.5:80": "10.0.0.5:80", "--advertise=[2001:db8::5]:80": "[2001:db8::5]:80",
		"--zk=127.0.0.1:1 --listen=127.0.0.1:0 --advertise=10.0.0.5:80": "10.0.0.5:80", "--listen=127.0.0.1:0": "127.0.0.1:0",
	} {
		cfg := captured(t, invocation{args: strings.Fields(args)})
		require.Equal(t, []string{want, want}, []string{cfg.Listen.Advertise, cfg.Node})
		require.Regexp(t, `(?m)^node +`+regexp.QuoteMeta(want)+` `, leafd(t, append([]string{"config"}, strings.Fields(args)...)...).OK(t))
	}
	for _, args := range []string{"--listen=127.0.0.1:0", "--listen=127.0.0.1:0 --node=n", "--advertise=127.0.0.1:0"} { // no peer can use it
		leafd(t, append([]string{"serve", "--zk=127.0.0.1:1"}, strings.Fields(args)...)...).Failed(t, ExitUsage, "advertise")
	}
}
