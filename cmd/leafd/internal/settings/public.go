package settings

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Public is a setting as it may be printed.
type Public struct {
	Name   string `json:"name"`
	Value  any    `json:"value"` // a string, a number, a bool or a list of strings
	Source Source `json:"source"`
}

// Public returns the effective values without their secrets.
func (vs *Values) Public() []Public {
	var out []Public
	for _, v := range vs.All {
		out = append(out, Public{Name: v.Setting.Name, Value: v.public(), Source: v.source})
	}
	return out
}

func (v *Value) public() any {
	switch parsed := v.Parsed.(type) {
	case time.Duration:
		return Short(parsed)
	case string:
		switch {
		case v.Derived != "":
			return v.Derived
		case v.Setting.Secret && parsed != "":
			return redact(parsed)
		}
		return parsed
	default:
		return parsed
	}
}

// Shown is a value as the log may have it.
func (v *Value) Shown() string {
	if v.Setting.Secret && v.Parsed != "" {
		return "(hidden)"
	}
	if text, ok := v.Parsed.(string); ok && text == "" {
		return `""`
	}
	return fmt.Sprint(v.Parsed)
}

// yamlLine is one setting as a line of YAML, quoted where it has to be.
func yamlLine(name string, value any) (string, error) {
	if words, ok := value.([]string); ok {
		value = strings.Join(words, ",")
	}
	line, err := yaml.Marshal(map[string]any{name: value})
	if err != nil {
		return "", fmt.Errorf("setting %s: %w", name, err)
	}
	return strings.TrimSuffix(string(line), "\n"), nil
}
