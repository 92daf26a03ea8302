package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/cobra"
)

func (a *app) configCmd() *cobra.Command {
	var output string
	var sample bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings that serve would run with, and where each comes from",
		Long: `Print the settings that "leafd serve" would run with, given the same flags, the same
environment and the same file, and where each comes from: flag, env, file or default.
Nothing is started. Passwords are not printed.`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd.Flags())
	cmd.Flags().BoolVar(&sample, "sample", false, "print a config file with every setting explained, and its default")
	outputFlag(cmd, &output, outputText, outputJSON, outputYAML)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(output, outputText, outputJSON, outputYAML); err != nil {
			return err
		}
		if sample {
			text, err := sampleFile()
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.Stdout, text)
			return printed(err)
		}
		cfg, values, err := a.loadConfig(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		a.warn(cfg.Warnings)
		switch output {
		case outputJSON:
			return printJSON(a.Stdout, values.public())
		case outputYAML:
			return printYAML(a.Stdout, values.public())
		default:
			return printSettings(a.Stdout, values.public())
		}
	}
	return cmd
}

// publicSetting is a setting as it may be printed.
type publicSetting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"` // a string, a number or a list of strings
	Source source `json:"source"`
}

// public returns the effective values without their secrets.
func (vs *values) public() []publicSetting {
	var out []publicSetting
	for _, v := range vs.all {
		out = append(out, publicSetting{Name: v.setting.name, Value: v.public(), Source: v.source})
	}
	return out
}

func (v *value) public() any {
	switch parsed := v.parsed.(type) {
	case time.Duration:
		return short(parsed)
	case string:
		switch {
		case v.derived != "":
			return v.derived
		case v.setting.secret && parsed != "":
			return redact(parsed)
		}
		return parsed
	default:
		return parsed
	}
}

func printSettings(w io.Writer, list []publicSetting) error {
	rows := [][]string{{"NAME", "VALUE", "SOURCE"}}
	for _, s := range list {
		text := fmt.Sprint(s.Value)
		if words, ok := s.Value.([]string); ok {
			text = strings.Join(words, ",")
		}
		if text == "" {
			text = `""`
		}
		rows = append(rows, []string{s.Name, text, string(s.Source)})
	}
	return printTable(w, rows)
}

// printYAML writes the settings as a config file, each with its source.
func printYAML(w io.Writer, list []publicSetting) error {
	var b strings.Builder
	for _, s := range list {
		line, err := yamlLine(s.Name, s.Value)
		if err != nil {
			return err
		}
		if strings.Contains(line, "\n") { // behind a text of several lines it would be part of it
			fmt.Fprintf(&b, "# %s\n%s\n", s.Source, line)
		} else {
			fmt.Fprintf(&b, "%s # %s\n", line, s.Source)
		}
	}
	_, err := io.WriteString(w, b.String())
	return printed(err)
}

// yamlLine is one setting as a line of YAML, quoted where it has to be.
func yamlLine(name string, value any) (string, error) {
	if words, ok := value.([]string); ok {
		value = strings.Join(words, ",")
	}
	line, err := yaml.Parser().Marshal(map[string]any{name: value})
	if err != nil {
		return "", fmt.Errorf("setting %s: %w", name, err)
	}
	return strings.TrimSuffix(string(line), "\n"), nil
}
