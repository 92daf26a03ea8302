package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/test/clitest"
)

// samplePath is the sample, which is part of the program.
const samplePath = "../../../../deploy/leafd.yaml"

func TestSampleHasEverySettingAtItsDefault(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile(samplePath)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, yaml.Unmarshal(committed, &keys))
	flags := 0
	cmd := newApp(Process{}).serveCmd()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == settings.ConfigFlag {
			return
		}
		flags++
		require.Contains(t, keys, f.Name)
	})
	require.Contains(t, keys, "rate-limits") // which has no flag
	require.Len(t, keys, flags+1)

	require.Equal(t, captured(t, invocation{}), captured(t, invocation{args: []string{"--config", samplePath}}))
	printed := leafd(t, "config", "--config", samplePath).OK(t)
	require.Equal(t, flags+1, strings.Count(printed, " file\n"), printed)
}

func TestConfigJSON(t *testing.T) {
	t.Parallel()
	type entry struct {
		Name   string
		Value  any
		Source string
	}
	list := clitest.FromJSON[[]entry](t, leafd(t, "config", "-o", "json", "--worker-id=5", "--modes=segment").OK(t))
	require.Len(t, list, len(settings.All()))
	require.Contains(t, list, entry{"worker-id", float64(5), "flag"})
	require.Contains(t, list, entry{"modes", []any{"segment"}, "flag"})
	require.Contains(t, list, entry{"startup-timeout", "30s", "default"})
	require.Contains(t, list, entry{"advertise", "127.0.0.1:8080", "default"})
	leafd(t, "config", "-o", "xml").Failed(t, ExitUsage, "--output", "want text or json")
}
