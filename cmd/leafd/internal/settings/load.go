package settings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/internal/plainfile"
	"github.com/leafd/leafd/segment/sqlstore"
)

// Sources are where settings come from beside the flags and the file.
type Sources struct {
	Env       map[string]string
	File      string                  // read where neither --config nor LEAFD_CONFIG names one, and it is there; empty: none
	Inherited map[string]net.Listener // listening sockets that systemd passed, by name; nil: none
	Tuning    Tuning                  // zero but in tests
}

// Errors is every mistake in the settings, one a line.
type Errors []string

func (e Errors) Error() string {
	if len(e) == 1 {
		return "bad setting: " + e[0]
	}
	return fmt.Sprintf("%d bad settings:\n  %s", len(e), strings.Join(e, "\n  "))
}

// UsageError is a mistake in the command line or the settings: nothing was done.
type UsageError struct{ error }

func (e *UsageError) Unwrap() error { return e.error }

// AsUsage returns err as a UsageError: a mistake in the command line.
func AsUsage(err error) error { return &UsageError{err} }

// Usagef returns a UsageError with this text.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// Load reads the settings that flags has flags for: each from its flag, else from the environment, else from the file,
// else its default. It returns a UsageError with all mistakes at once, and only warns of what may be none. With an error
// the Config has what is right, so that the daemon that runs with earlier settings can be asked.
func (src Sources) Load(ctx context.Context, flags *pflag.FlagSet) (Config, *Values, error) {
	c, vs := Config{Tuning: src.Tuning.complete()}, &Values{}
	path, file, unread := src.readFile(flags, &c, vs)
	for _, variable := range slices.Sorted(maps.Keys(src.Env)) {
		if strings.HasPrefix(variable, envPrefix) && !known(func(name string) bool { return variable == EnvName(name) }) && variable != EnvName(ConfigFlag) {
			c.warn("unknown environment variable " + variable + " is ignored") // another program's may begin so, too
		}
	}
	for _, s := range All() {
		flag := flags.Lookup(s.Name)
		if flag == nil && (s.Kind != KindRates || flags.Lookup("rate-limit") == nil) {
			continue
		}
		v := &Value{Name: s.Name, Setting: s, Source: byDefault}
		raw, name := typed(s.Def), s.Name+" (default)"
		if node, found := file[s.Name]; found {
			raw, v.Source, name = node, "file", fmt.Sprintf("%s:%d: %s", path, node.Line, s.Name)
		}
		if text := src.Env[EnvName(s.Name)]; strings.TrimSpace(text) != "" { // systemd and compose files take a variable out by an empty one
			raw, v.Source, name = typed(text), "env", EnvName(s.Name)
		}
		if flag != nil && flag.Changed {
			raw, v.Source, name = typed(flag.Value.String()), "flag", "--"+s.Name
		}
		v.mistake = name + " is " + s.given(&raw)
		vs.All = append(vs.All, v)
		parsed, err := s.parse(&raw)
		if vs.check(s.Name, err); err == nil {
			v.Parsed = parsed
			s.of(&c).Set(reflect.ValueOf(parsed).Convert(s.of(&c).Type()))
		}
	}
	c.validate(ctx, src, vs)
	for _, v := range vs.All {
		v.show(&c)
	}
	switch {
	case unread != nil:
		return c, vs, Usagef("config file %s: %w", path, unread)
	case len(vs.problems) > 0:
		return c, vs, AsUsage(Errors(vs.problems))
	}
	return c, vs, nil
}

// known reports whether is reports true for the name of a setting.
func known(is func(name string) bool) bool {
	return slices.ContainsFunc(All(), func(s Setting) bool { return is(s.Name) })
}

// typed returns a value as a scalar of the file.
func typed(text string) yaml.Node { return yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// maxFileBytes bounds the file of settings; the sample has 20 KB.
const maxFileBytes = 1 << 20

// readFile returns the path of the file, empty for none, and what it has for each known key. Unknown keys are problems.
// With an error, what can be read all the same is returned.
func (src Sources) readFile(flags *pflag.FlagSet, c *Config, vs *Values) (string, map[string]yaml.Node, error) {
	path := src.Env[EnvName(ConfigFlag)]
	if flag := flags.Lookup(ConfigFlag); flag.Changed {
		path = flag.Value.String()
	} else if _, err := os.Lstat(src.File); path == "" && !errors.Is(err, fs.ErrNotExist) {
		path = src.File // that of the service, or every command would look elsewhere in silence
	}
	named, err := plain(path)
	if named == "" {
		return path, nil, err
	}
	content, mode, err := plainfile.Read(named, maxFileBytes)
	if err != nil {
		return named, nil, bare(err)
	}
	file, err := parseFile(content)
	if err != nil {
		return named, file, err
	}
	for _, key := range slices.Sorted(maps.Keys(file)) {
		if !known(func(name string) bool { return name == key }) {
			vs.problems = append(vs.problems, fmt.Sprintf("config file %s:%d: unknown key %q", named, file[key].Line, key))
		}
	}
	c.warnOfMode(named, mode, file)
	return named, file, nil
}

// parseFile returns what the content of the file has for each key. No error shows a value of it: it may be the
// password. With an error, lines that stand for themselves are returned.
func parseFile(content []byte) (file map[string]yaml.Node, err error) {
	documents := yaml.NewDecoder(bytes.NewReader(content))
	err = documents.Decode(&file)
	switch {
	case err != nil && strings.Contains(err.Error(), "cannot unmarshal"):
		err = errors.New("want lines of the form `name: value`")
	case err == nil || errors.Is(err, io.EOF):
		// The decoder stops at the end of the first document, however that is ended.
		var second yaml.Node
		switch err = documents.Decode(&second); {
		case errors.Is(err, io.EOF):
			return file, nil
		case err == nil:
			err = fmt.Errorf("line %d begins a second YAML document, which would not be read: keep one", second.Line)
		default:
			err = errors.New("something follows the end of the first YAML document, and would not be read: keep one")
		}
	}
	file = map[string]yaml.Node{}
	for line := range bytes.Lines(content) {
		_ = yaml.Unmarshal(line, &file)
	}
	return file, err
}

// warnOfMode warns of a file that every user of the machine can change, or read where it
// has a secret.
func (c *Config) warnOfMode(path string, mode fs.FileMode, file map[string]yaml.Node) {
	name, instead := "config file "+path, ""
	for _, s := range All() {
		if text := file[s.Name].Value; s.Secret && text != "" && (s.Name != "mysql" || sqlstore.HasSecret(text)) {
			name, instead = name+", which has "+s.Name+",", instead+", or set "+EnvName(s.Name)+" instead"
			if s.Name == "mysql" {
				instead = ", or put the password into the file of mysql-password-file"
			}
		}
	}
	if text := plainfile.Exposed(name, mode); text != "" && (instead != "" || mode&0o002 != 0) {
		c.warn(text + instead)
	}
}
