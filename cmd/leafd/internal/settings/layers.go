package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/segment/sqlstore"
)

// maxFileBytes bounds the file of settings; the sample has 20 KB.
const maxFileBytes = 1 << 20

// Source is where a setting's value came from.
type Source string

// All sources of a value.
const (
	FromFlag    Source = "flag"
	FromEnv     Source = "env"
	FromFile    Source = "file"
	FromDefault Source = "default"
)

// layers are the sources of settings beside the flags, as read: the values have not
// been looked at yet.
type layers struct {
	path     string // of the file; empty: none
	file     map[string]yaml.Node
	env      map[string]string // by the setting's name
	warnings []string
	problems []string // unknown keys of the file
}

// loadLayers reads the file and the environment. It refuses a file that can't be
// read, and notes unknown keys as problems; unknown variables are only warned of, for
// another program's may begin with LEAFD_ too.
func (src Sources) loadLayers(fs *pflag.FlagSet) (*layers, error) {
	l := &layers{path: src.Env[EnvName(ConfigFlag)]}
	if flag := fs.Lookup(ConfigFlag); flag.Changed {
		l.path = flag.Value.String()
	} else if _, err := os.Lstat(src.File); l.path == "" && !errors.Is(err, iofs.ErrNotExist) {
		l.path = src.File // that of the service, or every command would look elsewhere in silence
	}
	if l.path != "" {
		content, mode, err := plainfile.Read(l.path, maxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("config file %s: %w", l.path, bare(err))
		}
		if err := l.parseFile(content); err != nil {
			return nil, err
		}
		l.warnOfMode(mode)
	}
	l.readEnv(src.Env)
	return l, nil
}

// parseFile reads the content of the file. No error shows a value of it: it may be
// the password.
func (l *layers) parseFile(content []byte) error {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	if err := documents.Decode(&l.file); err != nil && !errors.Is(err, io.EOF) {
		text := err.Error()
		if strings.Contains(text, "cannot unmarshal") {
			text = "want lines of the form `name: value`"
		}
		return fmt.Errorf("config file %s: %s", l.path, text)
	}
	// The decoder stops at the end of the first document, however that is ended.
	var second yaml.Node
	switch err := documents.Decode(&second); {
	case err == nil:
		return fmt.Errorf("config file %s: line %d begins a second YAML document, which would not be read: keep one", l.path, second.Line)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("config file %s: something follows the end of the first YAML document, and would not be read: keep one", l.path)
	}
	known := names()
	for _, key := range slices.Sorted(maps.Keys(l.file)) {
		if !slices.Contains(known, key) {
			l.problems = append(l.problems, fmt.Sprintf("config file %s: unknown key %q", l.path, key))
			delete(l.file, key)
		}
	}
	return nil
}

// warnOfMode warns of a file that every user of the machine can change, or read where it
// has a secret.
func (l *layers) warnOfMode(mode iofs.FileMode) {
	name, instead := "config file "+l.path, ""
	for _, s := range All() {
		if text := l.file[s.Name].Value; s.Secret && text != "" && (s.Name != "mysql" || sqlstore.HasSecret(text)) {
			name, instead = name+", which has "+s.Name+",", instead+", or set "+EnvName(s.Name)+" instead"
			if s.Name == "mysql" {
				instead = ", or put the password into the file of mysql-password-file"
			}
		}
	}
	if text := plainfile.Exposed(name, mode); text != "" && (instead != "" || mode&0o002 != 0) {
		l.warnings = append(l.warnings, text+instead)
	}
}

// readEnv reads the variables. An empty one counts as unset: that is how systemd and
// compose files take a variable out again.
func (l *layers) readEnv(vars map[string]string) {
	l.env = map[string]string{}
	known := map[string]string{EnvName(ConfigFlag): ""}
	for _, name := range names() {
		known[EnvName(name)] = name
	}
	for _, variable := range slices.Sorted(maps.Keys(vars)) {
		name, found := known[variable]
		switch {
		case !strings.HasPrefix(variable, envPrefix):
		case !found:
			l.warnings = append(l.warnings, fmt.Sprintf("unknown environment variable %s is ignored", variable))
		case name != "" && vars[variable] != "":
			l.env[name] = vars[variable]
		}
	}
}

// raw returns what the strongest source has for a setting: a flag, else the
// environment, else the file, else the default. What the file has counts as it would be typed.
func (l *layers) raw(fs *pflag.FlagSet, s Setting) (yaml.Node, Source) {
	typed := func(text string) yaml.Node { return yaml.Node{Kind: yaml.ScalarNode, Value: text} }
	if fs.Changed(s.Name) {
		return typed(fs.Lookup(s.Name).Value.String()), FromFlag
	}
	if text, found := l.env[s.Name]; found {
		return typed(text), FromEnv
	}
	if value, found := l.file[s.Name]; found {
		return value, FromFile
	}
	return typed(s.Def), FromDefault
}

// names are the names of all settings, --config not among them.
func names() []string {
	var list []string
	for _, s := range All() {
		list = append(list, s.Name)
	}
	return list
}
