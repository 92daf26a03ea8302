package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// FuzzConfigFile: a file with any content is taken in or refused by
// name, and the password in it is not printed.
func FuzzConfigFile(f *testing.F) {
	sample, err := os.ReadFile("../../../../deploy/leafd.yaml")
	require.NoError(f, err)
	f.Add(sample)
	for _, seed := range []string{
		"", "node: a\n", "a: &a [*a]\n", "listen: {a: {b: c}}\n", "modes: [snowflake]\n", "epoch: 1e400\n", "? [a]\n: b\n", "1: 2\n", "~: x\n",
		"\"a\\0b\": {c: d}\n", "node: !!binary aGk=\n", "node: 2026-11-21\n", "<<: {node: a}\n", "listen: .nan\n", "data-dir: \"0\\n0\"\nnode: \"\"\n", "data-dir: \"0\\n\\n\"\nnode: b\n", "--- \n...\n---\n",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "leafd.yaml")
	load := func(t *testing.T, content []byte) (*Values, error) {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return loaded(t, Sources{}, "--config="+path)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		v, err := load(t, content)
		var wrong Errors
		if err != nil && !errors.As(err, &wrong) {
			require.True(t, strings.HasPrefix(err.Error(), "config file "+path+": "), err)
			return
		}
		for _, problem := range wrong {
			require.Regexp(t, "^(config file )?"+path+":[0-9]+: ", problem)
		}
		for _, value := range v.All {
			if !value.bad {
				require.NotNil(t, value.Parsed, value.Name)
				require.Contains(t, []string{"file", byDefault}, value.Source)
			}
		}
		if err != nil || v.Find("mysql").Value != "" || v.Find("alarm-webhook").Value != "" { // shown without what is secret
			return
		}
		// What was taken in is shown, and read back as the same.
		shown := map[string]any{}
		for _, value := range v.All {
			if shown[value.Name] = value.Value; value.Setting.Kind != KindRates {
				shown[value.Name] = strings.TrimSuffix(value.Text(), `""`)
			}
		}
		printed, err := yaml.Marshal(shown)
		require.NoError(t, err)
		again, err := load(t, printed)
		require.NoError(t, err, string(printed))
		for i, value := range again.All {
			require.Equal(t, v.All[i].Value, value.Value, value.Name)
		}
	})
}

// loaded reads the settings of serve.
func loaded(t *testing.T, src Sources, args ...string) (*Values, error) {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	require.NoError(t, fs.Parse(args))
	_, v, err := src.Load(t.Context(), fs)
	return v, err
}
