package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock/clocktest"
)

// FuzzConfigFile: whatever stands in the file, it is taken in or refused by
// name, and the password in it is not printed.
func FuzzConfigFile(f *testing.F) {
	sample, err := os.ReadFile(samplePath)
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
		addSettings(fs)
		a := newApp(process{Clock: clocktest.New(testNow)})
		layers, err := a.loadLayers(fs)
		require.NoError(t, err)
		layers.path = "leafd.yaml"
		if err := layers.parseFile(content); err != nil {
			require.True(t, strings.HasPrefix(err.Error(), "config file leafd.yaml: "), err)
			return
		}
		require.NoError(t, layers.merged.Merge(layers.file))
		v := layers.parse(fs)
		for _, value := range v.all {
			require.Equal(t, value.bad, value.parsed == nil, value.setting.name)
			if !value.bad {
				require.Contains(t, []source{fromFile, fromDefault}, value.source)
			}
		}
		for _, problem := range v.problems {
			require.Contains(t, problem, "leafd.yaml")
		}
		if len(v.problems) > 0 {
			return
		}
		// What was taken in is shown, and read back as the same.
		var printed bytes.Buffer
		require.NoError(t, printYAML(&printed, v.public()))
		if v.text("mysql") != "" { // shown without its password
			return
		}
		again := a.reparse(t, printed.Bytes())
		require.Empty(t, again.problems, printed.String())
		for i, value := range again.all {
			require.Equal(t, v.all[i].parsed, value.parsed, value.setting.name)
		}
	})
}

func (a *app) reparse(t *testing.T, content []byte) *values {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	addSettings(fs)
	layers, err := a.loadLayers(fs)
	require.NoError(t, err)
	require.NoError(t, layers.parseFile(content), string(content))
	require.NoError(t, layers.merged.Merge(layers.file))
	return layers.parse(fs)
}
