package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/snowflake"
)

func (a *app) idCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "id",
		Short: "Get IDs, and decode them",
	}, a.idNextCmd(), a.idDecodeCmd(), a.idAtCmd())
}

// loadLayout is the layout that a command shall read IDs by.
func (a *app) loadLayout(cmd *cobra.Command, fs *pflag.FlagSet) (snowflake.Layout, error) {
	cfg, _, err := a.load(cmd.Context(), fs)
	if err != nil {
		return snowflake.Layout{}, err
	}
	a.warn(cfg.Warnings)
	return cfg.Snowflake.Layout, nil
}

func (a *app) idDecodeCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "decode ID...|-",
		Short: "Decode snowflake IDs",
		Long: `Decode snowflake IDs: their time (UTC), worker, sequence and, where the layout
has one, datacenter. No daemon is asked. "-" reads IDs from standard input, one a line.
The layout is that of the settings, and has to be the one that the IDs were made with.`,
		Example: "  leafd id decode 1234567890123456789\n  grep -o 'order=[0-9]*' app.log | cut -d= -f2 | leafd id decode -",
		Args:    cobra.MinimumNArgs(1),
	}
	settings.AddFlags(cmd.Flags(), "layout", "epoch")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
		layout, err := a.loadLayout(cmd, cmd.Flags())
		if err != nil {
			return err
		}
		ids, err := a.readIDs(args, layout)
		if err != nil {
			return err
		}
		if output == outputJSON {
			return printJSON(a.Stdout, decodedJSON(ids, layout))
		}
		return printTable(a.Stdout, decodedTable(ids, layout))
	}
	return cmd
}

// decodedID is an ID and what it is made of.
type decodedID struct {
	id    int64
	parts snowflake.Parts
}

// readIDs decodes args, and the lines of standard input where "-" stands. One
// bad ID fails all: a program must not take part of an answer for the whole.
func (a *app) readIDs(args []string, layout snowflake.Layout) ([]decodedID, error) {
	var ids []decodedID
	add := func(text, where string) error {
		// ParseInt would take a sign, which no ID is printed with.
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !isDigits(text) {
			return settings.Usagef("%s%.64q is not an ID: want a decimal number from 0 to 9223372036854775807", where, text)
		}
		parts, err := layout.Decode(id)
		if err != nil {
			return settings.Usagef("%s%q: %w", where, text, err)
		}
		ids = append(ids, decodedID{id: id, parts: parts})
		return nil
	}
	for _, arg := range args {
		if arg != "-" {
			if err := add(arg, ""); err != nil {
				return nil, err
			}
			continue
		}
		if err := eachLine(a.Stdin, func(line int, text string) error {
			return add(text, fmt.Sprintf("line %d: ", line))
		}); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// eachLine calls fn with every line of r that isn't blank, without the white
// space around it, and its number from 1.
func eachLine(r io.Reader, fn func(line int, text string) error) error {
	lines := bufio.NewScanner(r)
	n := 0
	for lines.Scan() {
		n++
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		if err := fn(n, text); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, bufio.ErrTooLong):
		return settings.Usagef("line %d of standard input is longer than any ID", n+1)
	default:
		return fmt.Errorf("standard input, line %d: %w", n+1, err)
	}
}

func decodedTable(ids []decodedID, layout snowflake.Layout) [][]string {
	heading := []string{"ID", "TIME", "WORKER", "SEQUENCE"}
	if layout.HasDatacenter() {
		heading = []string{"ID", "TIME", "DATACENTER", "WORKER", "SEQUENCE"}
	}
	rows := [][]string{heading}
	for _, d := range ids {
		row := []string{Decimal(d.id), d.parts.Time.String()}
		if layout.HasDatacenter() {
			row = append(row, Decimal(d.parts.Datacenter))
		}
		rows = append(rows, append(row, Decimal(d.parts.Worker), Decimal(d.parts.Sequence)))
	}
	return rows
}

// jsonID is a decoded ID for programs. IDs are strings: JavaScript's numbers
// lose their last digits.
type jsonID struct {
	ID         string       `json:"id"`
	Time       string       `json:"time"`
	Timestamp  clock.Millis `json:"timestamp"` // ms since 1970
	Datacenter *int64       `json:"datacenter,omitempty"`
	Worker     int64        `json:"worker"`
	Sequence   int64        `json:"sequence"`
}

func decodedJSON(ids []decodedID, layout snowflake.Layout) []jsonID {
	out := make([]jsonID, 0, len(ids))
	for _, d := range ids {
		j := jsonID{
			ID: Decimal(d.id), Time: d.parts.Time.String(), Timestamp: d.parts.Time,
			Worker: d.parts.Worker, Sequence: d.parts.Sequence,
		}
		if layout.HasDatacenter() {
			j.Datacenter = &d.parts.Datacenter
		}
		out = append(out, j)
	}
	return out
}

// Decimal is n in decimal digits.
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }
