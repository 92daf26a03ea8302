package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// Forms of output.
const (
	outputText = "text"
	outputJSON = "json"
	outputYAML = "yaml"
)

// outputFlag adds -o.
func outputFlag(cmd *cobra.Command, to *string, known ...string) {
	cmd.Flags().StringVarP(to, "output", "o", outputText, "form of the output: "+either(known))
}

// checkOutput refuses a form that the command doesn't have.
func checkOutput(output string, known ...string) error {
	for _, k := range known {
		if output == k {
			return nil
		}
	}
	return usagef("--output is %q: want %s", output, either(known))
}

// printJSON writes v, indented, for programs and for people who look.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return printed(encoder.Encode(v))
}

// printTable writes rows in columns; the first is the heading.
func printTable(w io.Writer, rows [][]string) error {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell)
		}
		if _, err := fmt.Fprintln(table, strings.Join(cells, "\t")); err != nil {
			return printed(err)
		}
	}
	return printed(table.Flush())
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
