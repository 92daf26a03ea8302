package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// value is the effective value of one setting.
type value struct {
	setting setting
	source  source
	// parsed is a string, int64, time.Duration or []string, by the setting's kind.
	parsed any
	// derived is what stands for an empty text; "" when nothing does.
	derived string
	bad     bool
}

// values are the effective values of the settings that a command takes, and
// what is wrong with them.
type values struct {
	all      []*value
	path     string // of the config file
	problems []string
}

// parse turns the layers into values of the kinds that the settings have, for
// the settings that fs has flags for.
func (l *layers) parse(fs *pflag.FlagSet) *values {
	vs := &values{path: l.path, problems: slices.Clone(l.problems)}
	for _, s := range settings() {
		if fs.Lookup(s.name) == nil {
			continue
		}
		v := &value{setting: s, source: l.source(fs, s.name)}
		vs.all = append(vs.all, v)
		raw := l.merged.Get(s.name)
		var err error
		if v.parsed, err = s.parse(raw, v.source == fromFile); err != nil {
			vs.problem(v, s.show(raw), err.Error())
		}
	}
	return vs
}

// show returns raw as an error may print it.
func (s setting) show(raw any) string {
	if s.secret {
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
func (vs *values) problem(v *value, shown, want string) {
	v.bad = true
	name := v.setting.name
	switch v.source {
	case fromFlag:
		name = "--" + name
	case fromEnv:
		name = envName(name)
	case fromFile:
		name = vs.path + ": " + name
	case fromDefault:
		name += " (default)"
	}
	vs.problems = append(vs.problems, fmt.Sprintf("%s is %s: %s", name, shown, want))
}

// refuse notes that the value of a setting is wrong. It does nothing for a
// setting that the command doesn't take.
func (vs *values) refuse(name, want string) {
	v := vs.find(name)
	if v == nil {
		return
	}
	raw := v.parsed
	if list, ok := raw.([]string); ok {
		raw = strings.Join(list, ",")
	}
	vs.problem(v, v.setting.show(raw), want)
}

// derive records what stands for an empty text.
func (vs *values) derive(name, text string) {
	if v := vs.find(name); v != nil {
		v.derived = text
	}
}

// good tells whether all the settings named are taken and right so far.
func (vs *values) good(names ...string) bool {
	for _, name := range names {
		if v := vs.find(name); v == nil || v.bad {
			return false
		}
	}
	return true
}

func (vs *values) find(name string) *value {
	for _, v := range vs.all {
		if v.setting.name == name {
			return v
		}
	}
	return nil
}

func valueOf[T any](vs *values, name string) T {
	var zero T
	if v := vs.find(name); v != nil && !v.bad {
		return v.parsed.(T) //nolint:forcetypeassert // parse returned it for the setting's kind
	}
	return zero
}

func (vs *values) text(name string) string            { return valueOf[string](vs, name) }
func (vs *values) number(name string) int64           { return valueOf[int64](vs, name) }
func (vs *values) duration(name string) time.Duration { return valueOf[time.Duration](vs, name) }
func (vs *values) list(name string) []string          { return valueOf[[]string](vs, name) }

// parse returns raw as the setting's kind, inside its bounds. What is typed in
// flags and variables is text; the file's values have types of their own, and a
// wrong type is an error, not a guess.
func (s setting) parse(raw any, typed bool) (any, error) {
	switch s.kind {
	case kindNumber:
		return s.parseNumber(raw, typed)
	case kindDuration:
		return s.parseDuration(raw)
	case kindList:
		return s.parseList(raw)
	default:
		return s.parseText(raw)
	}
}

func (s setting) parseText(raw any) (any, error) {
	text, ok := raw.(string)
	switch {
	case !ok:
		return nil, fmt.Errorf("want text%s", quoteHint(raw))
	case s.words != nil && !slices.Contains(s.words, text):
		return nil, fmt.Errorf("want %s", either(s.words))
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

func (s setting) parseNumber(raw any, typed bool) (any, error) {
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
	case !ok && s.max == maxNumber, ok && s.max == maxNumber && n < s.min:
		return nil, fmt.Errorf("want a whole number, %d or more", s.min)
	case !ok || n < s.min || n > s.max:
		return nil, fmt.Errorf("want a whole number, %d to %d", s.min, s.max)
	}
	return n, nil
}

func (s setting) parseDuration(raw any) (any, error) {
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
	if int64(d) < s.min || int64(d) > s.max {
		return nil, fmt.Errorf("want %s to %s", short(time.Duration(s.min)), short(time.Duration(s.max)))
	}
	return d, nil
}

// short is d without the zero units that Duration.String ends in: 24h, not 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (s setting) parseList(raw any) (any, error) {
	want := fmt.Errorf("want one or more of %s, each once", strings.Join(s.words, ", "))
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
		if !slices.Contains(s.words, word) || slices.Contains(words[:i], word) {
			return nil, want
		}
	}
	if len(words) == 0 {
		return nil, want
	}
	return words, nil
}

// either joins words as a choice: "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
