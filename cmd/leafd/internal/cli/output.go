package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/reply"
)

// Forms of output.
const (
	outputText = "text"
	outputJSON = "json"
)

// outputFlag adds -o, which is for people or for programs.
func (a *app) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", outputText, "form of the output: text or json")
}

// timeoutFlag adds --timeout, 10s where it isn't given.
func (a *app) timeoutFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().DurationVar(&a.timeout, "timeout", 10*time.Second, usage)
}

// begin checks -o and --timeout: the command's own code is reached.
func (a *app) begin(*cobra.Command, []string) error {
	a.started = true
	switch {
	case a.output != outputText && a.output != outputJSON:
		return settings.Usagef("--output is %q: want text or json", a.output)
	case a.timeout <= 0:
		return settings.Usagef("--timeout is %s: want a time such as 10s, more than 0s", a.timeout)
	}
	return nil
}

// show prints v for programs, or text for people.
func (a *app) show(v any, text func(w io.Writer) error) error {
	if a.output == outputJSON {
		return printJSON(a.Stdout, v)
	}
	return text(a.Stdout)
}

// sentence returns what show prints for people where a line says it all.
func sentence(format string, args ...any) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, oneLine(fmt.Sprintf(format, args...)))
		return printed(err)
	}
}

// A table for people has the fields that programs get, by the same names.

// field is one of them; without a text where it is not set.
type field struct{ name, text string }

// fieldsOf returns the fields that JSON has of the struct v, in their order; those of a struct in it
// behind its name. at prints a time.
func fieldsOf(v reflect.Value, at func(clock.Millis) string) (fields []field) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, omit, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" { // of an embedded struct the fields are visible
			continue
		}
		raw, text := v.FieldByIndex(f.Index), ""
		value := reflect.Indirect(raw)
		switch {
		case value.Kind() == reflect.Struct:
			for _, f := range fieldsOf(value, at) {
				fields = append(fields, field{name + "." + f.name, f.text})
			}
			continue
		case value.IsValid() && (omit == "" || !raw.IsZero()):
			text = textOf(value.Interface(), at)
		}
		fields = append(fields, field{strings.TrimSuffix(name, "_ms"), text})
	}
	return fields
}

// textOf returns the value of a field for people.
func textOf(value any, at func(clock.Millis) string) string {
	switch x := value.(type) {
	case clock.Millis:
		if x <= 0 {
			return ""
		}
		return at(x)
	case reply.Milliseconds:
		return span(time.Duration(x))
	case time.Duration:
		return settings.Short(x)
	case []string:
		return strings.Join(x, " ")
	default:
		return fmt.Sprint(x)
	}
}

// fields returns what show prints for people of a struct: a line for each field that is set, times with how
// far off they are.
func (a *app) fields(v any) func(w io.Writer) error {
	now := a.wall()
	rows := [][]string{{"FIELD", "VALUE"}}
	for _, f := range fieldsOf(reflect.ValueOf(v), func(t clock.Millis) string { return fmt.Sprintf("%s (%s)", t, formatRelative(t, now)) }) {
		if f.text != "" {
			rows = append(rows, []string{f.name, f.text})
		}
	}
	return table(rows)
}

// columns returns what show prints for people of a list: a line for each item, with its fields of these
// names, or all. A field that is set in no item makes no column.
func columns[T any](list []T, names ...string) func(w io.Writer) error {
	if len(names) == 0 {
		for _, f := range fieldsOf(reflect.ValueOf(*new(T)), formatTime) {
			names = append(names, f.name)
		}
	}
	items := make([]map[string]string, len(list))
	for i := range list {
		items[i] = map[string]string{}
		for _, f := range fieldsOf(reflect.ValueOf(list[i]), formatTime) {
			items[i][f.name] = f.text
		}
	}
	rows := make([][]string, 1+len(list))
	for _, name := range names {
		if len(list) > 0 && !slices.ContainsFunc(items, func(item map[string]string) bool { return item[name] != "" }) {
			continue
		}
		rows[0] = append(rows[0], strings.ToUpper(name))
		for i, item := range items {
			rows[1+i] = append(rows[1+i], cmp.Or(item[name], "-"))
		}
	}
	return table(rows)
}

// printJSON writes v, indented, for programs and for human readers.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return printed(encoder.Encode(v))
}

// table returns what show prints for people where there are rows: columns; the first is the heading.
func table(rows [][]string) func(w io.Writer) error {
	return func(w io.Writer) error {
		columns := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		for _, row := range rows {
			cells := make([]string, len(row))
			for i, cell := range row {
				cells[i] = oneLine(cell)
			}
			if _, err := fmt.Fprintln(columns, strings.Join(cells, "\t")); err != nil {
				return printed(err)
			}
		}
		return printed(columns.Flush())
	}
}

// oneLine replaces what would break a table, or what a terminal would obey: the
// descriptions of tags were written by others.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// printed says where a write failed: a full disk or a closed pipe must not look
// like success.
func printed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("standard output: %w", err)
}

// formatRelative returns how long ago t was, or how far ahead it lies, seen from now.
func formatRelative(t, now clock.Millis) string {
	if d := now.Sub(t); d >= 0 {
		return span(d) + " ago"
	}
	return "in " + span(t.Sub(now))
}

// span returns a duration in the one or two units that matter.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < 10*time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	}
}

// formatTime returns a time for people.
func formatTime(t clock.Millis) string { return t.Time().Format(time.DateTime) }
