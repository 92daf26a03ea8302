package settings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/segment/sqlstore"
)

// Public is a setting as it may be printed.
type Public struct {
	Name   string `json:"name"`
	Value  any    `json:"value"` // a string, a number, a bool or a list of strings
	Source Source `json:"source"`
}

// Text is the value on one line, for people.
func (p Public) Text() string {
	if words, ok := p.Value.([]string); ok {
		return strings.Join(words, ",")
	}
	if p.Value == "" {
		return `""`
	}
	return fmt.Sprint(p.Value)
}

// Public returns the effective values without their secrets.
func (vs *Values) Public() []Public {
	var out []Public
	for _, v := range vs.All {
		out = append(out, Public{Name: v.Setting.Name, Value: v.public(), Source: v.source})
	}
	return out
}

// Hidden is Public without anything of what is secret, not even where it leads to.
func (vs *Values) Hidden() []Public {
	var out []Public
	for _, v := range vs.All {
		out = append(out, v.Hidden())
	}
	return out
}

// Hidden is the value as the log may have it, without anything of what is secret.
func (v *Value) Hidden() Public {
	p := Public{Name: v.Setting.Name, Value: v.public(), Source: v.source}
	if v.Setting.Secret && v.Parsed != "" {
		p.Value = "(hidden)"
	}
	return p
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
			return sqlstore.RedactDSN(parsed)
		}
		return parsed
	default:
		return parsed
	}
}

// Secrets are what the settings have that a report must not have.
func (c *Config) Secrets() []string {
	secrets := []string{sqlstore.Password(c.Segment.MySQL), c.Segment.MySQL, c.HTTP.AdminToken, c.Alarm.Webhook, c.ZooKeeper.Auth.Secret()}
	if read := c.Store(false).Password; read != nil {
		if password, err := read(); err == nil {
			secrets = append(secrets, password)
		}
	}
	const least = 4 // bytes: a shorter one is everywhere, by chance
	return slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < least })
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
