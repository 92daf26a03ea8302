package settings

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/server/limits"
)

// byDefault is the source of a value that was given nowhere.
const byDefault = "default"

// Value is the effective value of one setting.
type Value struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`  // as it may be printed: a string, a number, a bool or a list of strings
	Source string `json:"source"` // flag, env, file or default

	Setting Setting `json:"-"`
	Parsed  any     `json:"-"` // as it was given: a string, int64, time.Duration, bool, []string or map[string]int
	mistake string  // how a mistake in it begins: the name that the user gave it by, and what was given
	bad     bool
}

// Values are the effective values of the settings that a command takes, and
// what is wrong with them.
type Values struct {
	All      []*Value
	problems []string
}

// Find returns the value of a setting; where the command does not take it, one without a setting that is bad.
func (vs *Values) Find(name string) *Value {
	for _, v := range vs.All {
		if v.Setting.Name == name {
			return v
		}
	}
	return &Value{Source: byDefault, bad: true}
}

// good reports whether a setting is taken and right so far.
func (vs *Values) good(name string) bool { return !vs.Find(name).bad }

// rule notes that the value of a setting is wrong where a rule doesn't hold. One mistake is enough: of a value that is
// bad, or that the command doesn't take, nothing is noted.
func (vs *Values) rule(name string, holds bool, want string, args ...any) {
	if v := vs.Find(name); !holds && !v.bad {
		v.bad = true
		vs.problems = append(vs.problems, v.mistake+": "+fmt.Sprintf(want, args...))
	}
}

// check notes err as what is wrong with the value of a setting; nil is nothing.
func (vs *Values) check(name string, err error) { vs.rule(name, err == nil, "%v", err) }

// show takes what may be printed from c: without what is secret, and with what stands for an empty text.
func (v *Value) show(c *Config) {
	v.Value = v.Setting.of(c).Interface()
	switch is := v.Value.(type) {
	case time.Duration:
		v.Value = Short(is)
	case string:
		if v.Setting.Secret && is != "" {
			v.Value = sqlstore.RedactDSN(is)
		}
	}
}

// Hidden returns the value as the log may have it, without anything of what is secret, not even where it leads to.
func (v Value) Hidden() *Value {
	if v.Setting.Secret && v.Value != "" {
		v.Value = "(hidden)"
	}
	return &v
}

// Text returns the value on one line, for people.
func (v *Value) Text() string {
	if words, ok := v.Value.([]string); ok {
		return strings.Join(words, ",")
	}
	return cmp.Or(fmt.Sprint(v.Value), `""`)
}

// given returns what stands at a place of the file, or was typed, as errors show it.
func (s Setting) given(raw *yaml.Node) string {
	switch {
	case s.Secret:
		return "(hidden)"
	case raw.Kind == yaml.ScalarNode && raw.Tag != "!!null":
		return fmt.Sprintf("%.80q", raw.Value)
	}
	var value any
	_ = raw.Decode(&value) // it was read before
	return fmt.Sprintf("%.80s", fmt.Sprint(value))
}

// parse returns raw as the setting's kind, inside its range.
func (s Setting) parse(raw *yaml.Node) (any, error) {
	if raw.Kind == yaml.AliasNode {
		raw = raw.Alias
	}
	text := raw.Value
	switch {
	case s.Kind == KindRates:
		return parseRates(raw)
	case s.Kind == KindList && raw.Kind == yaml.SequenceNode:
		var words []string
		_ = raw.Decode(&words) // what is no text is none of the words
		text = strings.Join(words, ",")
	case raw.Kind != yaml.ScalarNode || raw.Tag == "!!null":
		return nil, errors.New(`want one value; "" is empty, and leaving the line out is the default`)
	}
	text, err := plain(text)
	if err != nil {
		return nil, err
	}
	switch s.Kind { //nolint:exhaustive // the others are text
	case KindNumber, KindDuration:
		return s.parseUnits(text)
	case KindBool:
		return text == "true", broken(rule{text == "true" || text == "false", "want true or false"})
	case KindList:
		words := strings.Split(text, ",")
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
			if !slices.Contains(s.Words, words[i]) || slices.Contains(words[:i], words[i]) {
				return nil, fmt.Errorf("want one or more of %s, each once", strings.Join(s.Words, ", "))
			}
		}
		return words, nil
	}
	return text, broken(rule{len(s.Words) == 0 || slices.Contains(s.Words, text), "want one of " + strings.Join(s.Words, ", ")})
}

// plain returns text without the white space around it. It refuses what a shell, a unit file or a copied line leaves
// in a value by mistake, and what uses the value would stumble over only later.
func plain(text string) (string, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.ContainsFunc(text, segment.Hidden):
		return "", errors.New("want no line end, no NUL and no other invisible character in it")
	case text != "" && strings.Contains("\"'`", text[:1]) && text[len(text)-1] == text[0]:
		return "", errors.New("want it without the quotes around it")
	}
	return text, nil
}

// units returns a number, or a duration in nanoseconds.
func (s Setting) units(text string) (int64, error) {
	if s.Kind == KindDuration {
		d, err := time.ParseDuration(text)
		return int64(d), err
	}
	return strconv.ParseInt(text, 10, 64)
}

func (s Setting) parseUnits(text string) (any, error) {
	n, err := s.units(text)
	ends := strings.Fields(s.Range) // "1s to 1h", or "0 or more"
	least, _ := s.units(ends[0])
	most, unbounded := s.units(ends[2])
	inside := n >= least && (n <= most || unbounded != nil)
	if s.Kind == KindNumber {
		return n, broken(rule{err == nil && inside, "want a whole number, " + s.Range})
	}
	return time.Duration(n), broken(rule{err == nil, "want a duration with its unit, such as 500ms, 3s or 2m"}, rule{inside, "want " + s.Range})
}

// parseRates reads a map of rates. The key of a tag may look like a number to YAML.
func parseRates(raw *yaml.Node) (any, error) {
	rates, texts := map[string]int{}, map[string]string{}
	right := raw.Kind == yaml.ScalarNode && raw.Tag+raw.Value == "" || raw.Kind == yaml.MappingNode && raw.Decode(&texts) == nil // not of a key that comes twice
	for key, text := range texts {
		rate, err := strconv.Atoi(text)
		right = right && err == nil && rate >= 0 && rate <= limits.MaxRate && key != "" && len(key) <= segment.MaxTagBytes
		rates[key] = rate
	}
	if !right {
		return nil, fmt.Errorf("want {key: rate} in the file, of keys and whole numbers, 0 to %d", limits.MaxRate)
	}
	return rates, nil
}

// zeroUnits are those that Duration.String ends in.
var zeroUnits = regexp.MustCompile(`([hm])(0m)?0s$`)

// Short returns d without the zero units that Duration.String ends in: 24h, not 24h0m0s.
func Short(d time.Duration) string { return zeroUnits.ReplaceAllString(d.String(), "$1") }
