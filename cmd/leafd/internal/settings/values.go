package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/limits"
)

// Value is the effective value of one setting.
type Value struct {
	Setting Setting
	source  Source
	// Parsed is a string, int64, time.Duration, bool, []string or map[string]int, by the setting's kind.
	Parsed any
	// Derived is what stands for an empty text; "" when nothing does.
	Derived string
	bad     bool
}

// Values are the effective values of the settings that a command takes, and
// what is wrong with them.
type Values struct {
	All      []*Value
	path     string // of the config file
	problems []string
}

// parse turns the layers into values of the kinds that the settings have, for
// the settings that fs has flags for.
func (l *layers) parse(fs *pflag.FlagSet) *Values {
	vs := &Values{path: l.path, problems: slices.Clone(l.problems)}
	for _, s := range All() {
		if fs.Lookup(s.Name) == nil && (s.Kind != KindRates || fs.Lookup("rate-limit") == nil) {
			continue
		}
		raw, source := l.raw(fs, s)
		v := &Value{Setting: s, source: source}
		vs.All = append(vs.All, v)
		var err error
		if v.Parsed, err = s.parse(&raw); err != nil {
			vs.problem(v, s.show(textOf(&raw)), err.Error())
		}
	}
	return vs
}

// fill copies each good value to the field that its row names.
func (vs *Values) fill(c *Config) {
	for _, v := range vs.All {
		if v.Setting.to != nil && !v.bad {
			field, value := reflect.ValueOf(v.Setting.to(c)).Elem(), reflect.ValueOf(v.Parsed)
			field.Set(value.Convert(field.Type()))
		}
	}
}

// show returns raw as an error may print it.
func (s Setting) show(raw any) string {
	if s.Secret {
		return "(hidden)"
	}
	text := fmt.Sprint(raw)
	if len(text) > 80 {
		text = text[:80] + "..."
	}
	if _, ok := raw.(string); ok {
		return strconv.Quote(text)
	}
	return text
}

// problem notes that a value is wrong, under the name that the user gave it by.
func (vs *Values) problem(v *Value, shown, want string) {
	v.bad = true
	name := v.Setting.Name
	switch v.source {
	case FromFlag:
		name = "--" + name
	case FromEnv:
		name = EnvName(name)
	case FromFile:
		name = vs.path + ": " + name
	case FromDefault:
		name += " (default)"
	}
	vs.problems = append(vs.problems, fmt.Sprintf("%s is %s: %s", name, shown, want))
}

// refuse notes that the value of a setting is wrong. It does nothing for a
// setting that the command doesn't take.
func (vs *Values) refuse(name, want string) {
	v := vs.Find(name)
	if v == nil {
		return
	}
	raw := v.Parsed
	if list, ok := raw.([]string); ok {
		raw = strings.Join(list, ",")
	}
	vs.problem(v, v.Setting.show(raw), want)
}

// derive records what stands for an empty text.
func (vs *Values) derive(name, text string) {
	if v := vs.Find(name); v != nil {
		v.Derived = text
	}
}

// good tells whether all the settings named are taken and right so far.
func (vs *Values) good(names ...string) bool {
	for _, name := range names {
		if v := vs.Find(name); v == nil || v.bad {
			return false
		}
	}
	return true
}

// given reports whether a setting is taken, and was set anywhere.
func (vs *Values) given(name string) bool {
	v := vs.Find(name)
	return v != nil && v.source != FromDefault
}

// together refuses one of two settings that has a value where the other has none.
func (vs *Values) together(one, other string) (ok bool) {
	for _, pair := range [][2]string{{one, other}, {other, one}} {
		if vs.Text(pair[0]) != "" && vs.Text(pair[1]) == "" {
			vs.refuse(pair[0], "want "+pair[1]+" with it")
			return false
		}
	}
	return true
}

// Find returns the value of a setting; nil where the command does not take it.
func (vs *Values) Find(name string) *Value {
	for _, v := range vs.All {
		if v.Setting.Name == name {
			return v
		}
	}
	return nil
}

func valueOf[T any](vs *Values, name string) T {
	var zero T
	if v := vs.Find(name); v != nil && !v.bad {
		return v.Parsed.(T) //nolint:forcetypeassert // parse returned it for the setting's kind
	}
	return zero
}

// Text returns the value of a setting of text; "" where it is bad or not taken.
func (vs *Values) Text(name string) string  { return valueOf[string](vs, name) }
func (vs *Values) number(name string) int64 { return valueOf[int64](vs, name) }

// textOf returns what stands at a place of the file, as errors show it.
func textOf(raw *yaml.Node) any {
	if raw.Kind == yaml.ScalarNode && raw.Tag != "!!null" {
		return raw.Value
	}
	var value any
	_ = raw.Decode(&value) // it was read before
	return value
}

// parse returns raw as the setting's kind, inside its bounds.
func (s Setting) parse(raw *yaml.Node) (any, error) {
	if raw.Kind == yaml.AliasNode {
		raw = raw.Alias
	}
	text := raw.Value
	switch {
	case s.Kind == KindRates:
		return parseRates(raw)
	case s.Kind == KindList && raw.Kind == yaml.SequenceNode:
		words := make([]string, len(raw.Content))
		for i, word := range raw.Content {
			words[i] = word.Value
		}
		text = strings.Join(words, ",")
	case raw.Kind != yaml.ScalarNode || raw.Tag == "!!null":
		return nil, errors.New(`want one value; "" is empty, and leaving the line out is the default`)
	}
	switch s.Kind {
	case KindNumber:
		return s.parseNumber(text)
	case KindDuration:
		return s.parseDuration(text)
	case KindBool:
		if text != "true" && text != "false" {
			return nil, errors.New("want true or false")
		}
		return text == "true", nil
	case KindList:
		return s.parseList(text)
	default:
		return s.parseText(text)
	}
}

func (s Setting) parseText(text string) (any, error) {
	switch {
	case s.Words != nil && !slices.Contains(s.Words, text):
		return nil, fmt.Errorf("want %s", Either(s.Words))
	case strings.ContainsRune(text, 0):
		return nil, errors.New("want text without the character NUL")
	default:
		return text, nil
	}
}

func (s Setting) parseNumber(text string) (any, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch wrong := err != nil || n < s.bounds.min || n > s.bounds.max; {
	case wrong && s.bounds.max == maxNumber:
		return nil, fmt.Errorf("want a whole number, %d or more", s.bounds.min)
	case wrong:
		return nil, fmt.Errorf("want a whole number, %d to %d", s.bounds.min, s.bounds.max)
	}
	return n, nil
}

func (s Setting) parseDuration(text string) (any, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, errors.New("want a duration with its unit, such as 500ms, 3s or 2m")
	}
	if int64(d) < s.bounds.min || int64(d) > s.bounds.max {
		return nil, fmt.Errorf("want %s to %s", Short(time.Duration(s.bounds.min)), Short(time.Duration(s.bounds.max)))
	}
	return d, nil
}

// Short is d without the zero units that Duration.String ends in: 24h, not 24h0m0s.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (s Setting) parseList(text string) (any, error) {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if !slices.Contains(s.Words, word) || slices.Contains(words, word) {
			return nil, fmt.Errorf("want one or more of %s, each once", strings.Join(s.Words, ", "))
		}
		words = append(words, word)
	}
	return words, nil
}

// parseRates reads a map of rates. The key of a tag may look like a number to YAML.
func parseRates(raw *yaml.Node) (any, error) {
	var rates map[string]int // as Config has it: nil without any
	want := fmt.Errorf("want {key: rate} in the file, of keys and whole numbers, 0 to %d", limits.MaxRate)
	switch {
	case raw.Kind == yaml.ScalarNode && raw.Tag == "" && raw.Value == "": // the default
		return rates, nil
	case raw.Kind != yaml.MappingNode || raw.Decode(new(map[string]any)) != nil: // a key that comes twice, too
		return nil, want
	}
	for i := 0; i < len(raw.Content); i += 2 {
		key := raw.Content[i].Value
		rate, err := strconv.Atoi(raw.Content[i+1].Value)
		if err != nil || rate < 0 || rate > limits.MaxRate || key == "" || len(key) > segment.MaxTagBytes {
			return nil, want
		}
		if rates == nil {
			rates = make(map[string]int)
		}
		rates[key] = rate
	}
	return rates, nil
}

// Either joins words as a choice: "a, b or c".
func Either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
