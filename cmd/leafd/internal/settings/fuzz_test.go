package settings

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
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
	f.Fuzz(func(t *testing.T, content []byte) {
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		AddFlags(fs)
		layers, err := Sources{}.loadLayers(fs)
		require.NoError(t, err)
		layers.path = "leafd.yaml"
		if err := layers.parseFile(content); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "config file leafd.yaml: "), err)
			return
		}
		v := layers.parse(fs)
		for _, value := range v.All {
			require.Equal(t, value.bad, value.Parsed == nil, value.Setting.Name)
			if !value.bad {
				require.Contains(t, []Source{FromFile, FromDefault}, value.source)
			}
		}
		for _, problem := range v.problems {
			require.Contains(t, problem, "leafd.yaml")
		}
		if len(v.problems) > 0 {
			return
		}
		// What was taken in is shown, and read back as the same.
		var shown strings.Builder
		for _, s := range v.Public() {
			line, err := yamlLine(s.Name, s.Value)
			require.NoError(t, err)
			shown.WriteString(line + "\n")
		}
		printed := shown.String()
		if v.Text("mysql") != "" { // shown without its password
			return
		}
		again := reparse(t, []byte(printed))
		require.Empty(t, again.problems, printed)
		for i, value := range again.All {
			require.Equal(t, v.All[i].Parsed, value.Parsed, value.Setting.Name)
		}
	})
}

func reparse(t *testing.T, content []byte) *Values {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	AddFlags(fs)
	layers, err := Sources{}.loadLayers(fs)
	require.NoError(t, err)
	require.NoError(t, layers.parseFile(content), string(content))
	return layers.parse(fs)
}
