package cli

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/clitest"
)

// The fields that WithLive copies are those of the settings marked live, each of
// them, and no others: least of all what makes the daemon's identity.
func TestLiveSettingsAreThoseMarked(t *testing.T) {
	t.Parallel()
	// Another database waits for a restart, so mysql differs in its user.
	start := captured(t, invocation{args: []string{"--mysql=leaf@tcp(127.0.0.1:3306)/leaf"}})
	for _, s := range settings.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			other, ok := otherValue(t, s)
			if !ok {
				return
			}
			next := captured(t, invocation{args: append(needs(t, s.Name), "--mysql=leaf@tcp(127.0.0.1:3306)/leaf", "--"+s.Name+"="+other)})
			before, after := settingsOnly(start), settingsOnly(start.WithLive(next))
			require.Equal(t, s.Live, !reflect.DeepEqual(before, after), "%s=%s", s.Name, other)
		})
	}
}

// needs are the flags without which a setting has no other value.
func needs(t *testing.T, name string) []string {
	t.Helper()
	switch name {
	case "worker-id", "datacenter":
		return []string{"--layout", "41+5+5+12"}
	default:
		return nil
	}
}

// otherValue returns a value that is not the default; false where a lone value is refused.
func otherValue(t *testing.T, s settings.Setting) (string, bool) {
	t.Helper()
	switch s.Kind {
	case settings.KindNumber:
		switch s.Name {
		case "worker-id", "datacenter": // a lone value is refused
			return "", false
		case "epoch":
			return "1288834974000", true
		}
		def, err := strconv.ParseInt(s.Def, 10, 64)
		require.NoError(t, err)
		return strconv.FormatInt(def+1, 10), true
	case settings.KindDuration:
		def, err := time.ParseDuration(s.Def)
		require.NoError(t, err)
		return (def + 100*time.Millisecond).String(), true
	case settings.KindBool:
		return "true", s.Def == "false"
	case settings.KindList:
		return s.Words[0], true
	default:
	}
	if s.Words != nil {
		for _, word := range s.Words {
			if word != s.Def {
				return word, true
			}
		}
	}
	switch s.Name {
	case "admin-token-file":
		return clitest.WriteFile(t, "token", "0123456789abcdef"), true
	case "tokens-file":
		return clitest.WriteFile(t, "tokens", "[{name: shop, sha256: "+strings.Repeat("1f", 32)+", ids: order}]\n"), true
	case "alarm-webhook":
		return "http://127.0.0.1:1/hook", true
	case "data-dir", "node", "allow-host":
		return "another", true
	case "zk", "listen", "advertise":
		return "127.0.0.1:2181", true
	case "mysql":
		return "another@tcp(127.0.0.1:3306)/leaf", true
	default:
		return "", false
	}
}

// settingsOnly is cfg without what is no setting.
func settingsOnly(cfg settings.Config) settings.Config {
	cfg.Warnings = nil
	return cfg
}
