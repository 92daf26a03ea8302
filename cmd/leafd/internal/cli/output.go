package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
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

// sentence is what show prints for people where a line says it all.
func sentence(format string, args ...any) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, oneLine(fmt.Sprintf(format, args...)))
		return printed(err)
	}
}

// table is what show prints for people where there are rows; the first is the heading.
func table(rows [][]string) func(w io.Writer) error {
	return func(w io.Writer) error { return printTable(w, rows) }
}

// printJSON writes v, indented, for programs and for human readers.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return printed(encoder.Encode(v))
}

// printTable writes rows in columns; the first is the heading.
func printTable(w io.Writer, rows [][]string) error {
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

// formatRelative is how long ago t was, or how far ahead it lies, seen from now.
func formatRelative(t, now clock.Millis) string {
	switch d := now.Sub(t); {
	case t <= 0:
		return "never"
	case d < 0:
		return "in " + span(-d)
	default:
		return span(d) + " ago"
	}
}

// span is a duration in the one or two units that matter.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
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

// formatTime is a time for people; "-" when there is none.
func formatTime(t clock.Millis) string {
	if t <= 0 {
		return "-"
	}
	return t.Time().Format("2006-01-02 15:04:05")
}
