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
		if v.Parsed, err = s.parse(raw, v.source == FromFile); err != nil {
			vs.problem(v, s.show(raw), err.Error())
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

// parse returns raw as the setting's kind, inside its bounds. What is typed in
// flags and variables is text; the file's values have types of their own, and a
// wrong type is an error, not a guess.
func (s Setting) parse(raw any, typed bool) (any, error) {
	switch s.Kind {
	case KindNumber:
		return s.parseNumber(raw, typed)
	case KindDuration:
		return s.parseDuration(raw)
	case KindBool:
		return parseBool(raw, typed)
	case KindList:
		return s.parseList(raw)
	case KindRates:
		return parseRates(raw)
	default:
		return s.parseText(raw)
	}
}

func (s Setting) parseText(raw any) (any, error) {
	text, ok := raw.(string)
	switch {
	case !ok:
		return nil, fmt.Errorf("want text%s", quoteHint(raw))
	case s.Words != nil && !slices.Contains(s.Words, text):
		return nil, fmt.Errorf("want %s", Either(s.Words))
	case strings.ContainsRune(text, 0):
		return nil, errors.New("want text without the character NUL")
	default:
		return text, nil
	}
}

// quoteHint tells what to do about text that YAML took for something else.
func quoteHint(raw any) string {
	switch raw.(type) {
	case nil:
		return `; "" is empty, and leaving the line out is the default`
	case map[string]any, []any:
		return ""
	default:
		return `, in "quotes" where YAML takes it for something else`
	}
}

func (s Setting) parseNumber(raw any, typed bool) (any, error) {
	var n int64
	ok := false
	switch v := raw.(type) {
	case int:
		n, ok = int64(v), true
	case int64:
		n, ok = v, true
	case string:
		if !typed {
			parsed, err := strconv.ParseInt(v, 10, 64)
			n, ok = parsed, err == nil
		}
	}
	switch {
	case !ok && s.bounds.max == maxNumber, ok && s.bounds.max == maxNumber && n < s.bounds.min:
		return nil, fmt.Errorf("want a whole number, %d or more", s.bounds.min)
	case !ok || n < s.bounds.min || n > s.bounds.max:
		return nil, fmt.Errorf("want a whole number, %d to %d", s.bounds.min, s.bounds.max)
	}
	return n, nil
}

func parseBool(raw any, typed bool) (any, error) {
	if text, ok := raw.(string); ok && !typed && (text == "true" || text == "false") {
		return text == "true", nil
	}
	if b, ok := raw.(bool); ok {
		return b, nil
	}
	return nil, errors.New("want true or false")
}

func (s Setting) parseDuration(raw any) (any, error) {
	var d time.Duration
	ok := false
	switch v := raw.(type) {
	case string:
		parsed, err := time.ParseDuration(v)
		d, ok = parsed, err == nil
	case int:
		ok = v == 0 // the one number that needs no unit
	}
	if !ok {
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

func (s Setting) parseList(raw any) (any, error) {
	want := fmt.Errorf("want one or more of %s, each once", strings.Join(s.Words, ", "))
	var words []string
	switch v := raw.(type) {
	case string:
		for word := range strings.SplitSeq(v, ",") {
			words = append(words, strings.TrimSpace(word))
		}
	case []any:
		for _, entry := range v {
			word, ok := entry.(string)
			if !ok {
				return nil, want
			}
			words = append(words, word)
		}
	}
	for i, word := range words {
		if !slices.Contains(s.Words, word) || slices.Contains(words[:i], word) {
			return nil, want
		}
	}
	if len(words) == 0 {
		return nil, want
	}
	return words, nil
}

// parseRates reads a map of rates. The key of a tag may look like a number to YAML.
func parseRates(raw any) (any, error) {
	var rates map[string]int // as Config has it: nil without any
	given, isMap := raw.(map[string]any)
	want := fmt.Errorf("want {key: rate} in the file, of keys in quotes and whole numbers, 0 to %d", limits.MaxRate)
	if !isMap && raw != "" { // the default
		return rates, want
	}
	for key, rate := range given {
		n, whole := rate.(int)
		if !whole || n < 0 || n > limits.MaxRate || key == "" || len(key) > segment.MaxTagBytes {
			return rates, want
		}
		if rates == nil {
			rates = make(map[string]int)
		}
		rates[key] = n
	}
	return rates, nil
}

// Either joins words as a choice: "a, b or c".
func Either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
