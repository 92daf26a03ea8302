package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
	yamlv3 "go.yaml.in/yaml/v3"
)

// source is where a setting's value came from.
type source string

const (
	fromFlag    source = "flag"
	fromEnv     source = "env"
	fromFile    source = "file"
	fromDefault source = "default"
)

// delimiter parts the levels of a key in koanf. No setting has levels, and no
// key of a sane file has this character, so that keys stay as they were written.
const delimiter = "\x00"

// layers are the sources of settings, as read, values not looked at yet.
type layers struct {
	path     string // of the file; empty: none
	merged   *koanf.Koanf
	file     *koanf.Koanf
	env      *koanf.Koanf
	warnings []string
	problems []string // unknown keys of the file
}

// loadLayers reads the three sources. It refuses a file that can't be read, and
// notes unknown keys as problems; unknown variables are only warned of, for
// another program's may begin with LEAFD_ too.
func (a *app) loadLayers(fs *pflag.FlagSet) (*layers, error) {
	l := &layers{merged: koanf.New(delimiter), file: koanf.New(delimiter), env: koanf.New(delimiter)}
	l.path = a.Env[envName(configFlag)]
	if flag := fs.Lookup(configFlag); flag.Changed {
		l.path = flag.Value.String()
	}
	if l.path != "" {
		if err := l.readFile(); err != nil {
			return nil, err
		}
	}
	if err := l.readEnv(a.Env); err != nil {
		return nil, err
	}
	for _, layer := range []*koanf.Koanf{l.file, l.env} {
		if err := l.merged.Merge(layer); err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
	}
	asTyped := func(name, text string) (string, any) {
		if name == configFlag {
			return "", nil
		}
		return name, text
	}
	// Given what is merged already, the provider adds the flags that were set,
	// and the defaults of what no source has.
	if err := l.merged.Load(posflag.ProviderWithValue(fs, delimiter, l.merged, asTyped), nil); err != nil {
		return nil, fmt.Errorf("settings: flags: %w", err)
	}
	return l, nil
}

func (l *layers) readFile() error {
	provider := file.Provider(l.path)
	content, err := provider.ReadBytes()
	if err != nil {
		return fmt.Errorf("config file %s: %w", l.path, bare(err))
	}
	return l.parseFile(content)
}

// parseFile takes in the content of the file. No error shows a value of it: it
// may be the password.
func (l *layers) parseFile(content []byte) error {
	if line := secondDocument(content); line > 0 {
		return fmt.Errorf("config file %s: line %d begins a second YAML document, which would not be read: keep one", l.path, line)
	}
	parsed, err := yaml.Parser().Unmarshal(content)
	if err != nil {
		text := err.Error()
		if strings.Contains(text, "cannot unmarshal") {
			text = "want lines of the form `name: value`"
		}
		return fmt.Errorf("config file %s: %s", l.path, text)
	}
	if err := wholly(content); err != nil {
		return fmt.Errorf("config file %s: %w", l.path, err)
	}
	known := settingNames()
	for key := range parsed {
		if !slices.Contains(known, key) {
			l.problems = append(l.problems, fmt.Sprintf("config file %s: unknown key %q%s", l.path, key, hint(key, known, "")))
			delete(parsed, key)
		}
	}
	sort.Strings(l.problems)
	if err := l.file.Load(parsedMap(parsed), nil); err != nil {
		return fmt.Errorf("config file %s: %w", l.path, err)
	}
	return nil
}

// wholly returns an error where something follows on the first YAML document, in
// whatever way it was ended: the parser drops that silently.
func wholly(content []byte) error {
	documents := yamlv3.NewDecoder(bytes.NewReader(content))
	var document yamlv3.Node
	if err := documents.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	}
	if err := documents.Decode(&document); !errors.Is(err, io.EOF) {
		return errors.New("something follows on the end of the first YAML document, and would not be read: keep one")
	}
	return nil
}

// parsedMap is a koanf.Provider of what was parsed already.
type parsedMap map[string]any

func (m parsedMap) ReadBytes() ([]byte, error)    { return nil, errors.New("parsed already") }
func (m parsedMap) Read() (map[string]any, error) { return m, nil }

// secondDocument returns the line on which a second YAML document begins, 0 if
// there is none: the parser reads the first and drops the rest silently.
func secondDocument(content []byte) int {
	begun := false
	for i, line := range strings.Split(string(content), "\n") {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case line == "---" || strings.HasPrefix(line, "--- "):
			if begun {
				return i + 1
			}
			begun = true
		case line != "" && !strings.HasPrefix(strings.TrimLeft(line, " \t"), "#"):
			begun = true
		}
	}
	return 0
}

func (l *layers) readEnv(vars map[string]string) error {
	known := settingNames()
	names := map[string]string{}
	for _, name := range known {
		names[envName(name)] = name
	}
	transform := func(variable, value string) (string, any) {
		name, found := names[variable]
		switch {
		case !found && variable != envName(configFlag):
			var near []string
			for v := range names {
				near = append(near, v)
			}
			sort.Strings(near)
			l.warnings = append(l.warnings, fmt.Sprintf("unknown environment variable %s is ignored%s", variable, hint(variable, near, "")))
			return "", nil
		case value == "":
			// As good as unset: that is how systemd and compose files
			// take a variable out again.
			return "", nil
		default:
			return name, value
		}
	}
	list := func() []string {
		var entries []string
		for name, value := range vars {
			entries = append(entries, name+"="+value)
		}
		sort.Strings(entries)
		return entries
	}
	if err := l.env.Load(env.Provider(delimiter, env.Opt{Prefix: envPrefix, TransformFunc: transform, EnvironFunc: list}), nil); err != nil {
		return fmt.Errorf("settings: environment: %w", err)
	}
	return nil
}

// source tells where the value of a setting came from.
func (l *layers) source(fs *pflag.FlagSet, name string) source {
	switch {
	case fs.Changed(name):
		return fromFlag
	case l.env.Exists(name):
		return fromEnv
	case l.file.Exists(name):
		return fromFile
	default:
		return fromDefault
	}
}

// settingNames are the names of all settings, --config not among them.
func settingNames() []string {
	var names []string
	for _, s := range settings() {
		names = append(names, s.name)
	}
	return names
}
