package cli

import (
	"strconv"

	"github.com/spf13/cobra"

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

func (a *app) idDecodeCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "decode ID...",
		Short: "Decode snowflake IDs",
		Long: `Decode snowflake IDs: their time (UTC), worker, sequence and, where the layout
has one, datacenter. No daemon is asked.
The layout is that of the settings, and has to be the one that the IDs were made with.`,
		Example: "  leafd id decode 1234567890123456789 2124080377352974378",
		Args:    cobra.MinimumNArgs(1),
	}
	settings.AddFlags(cmd.Flags(), "layout", "epoch")
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := a.config(cmd)
		if err != nil {
			return err
		}
		layout := cfg.Snowflake.Layout
		ids, err := readIDs(args, layout)
		if err != nil {
			return err
		}
		return a.show(output, decodedJSON(ids, layout), table(decodedTable(ids, layout)))
	}
	return cmd
}

// decodedID is an ID and what it is made of.
type decodedID struct {
	id    int64
	parts snowflake.Parts
}

// readIDs decodes args. One bad ID fails all: a program must not take part of an answer for
// the whole.
func readIDs(args []string, layout snowflake.Layout) ([]decodedID, error) {
	ids := make([]decodedID, 0, len(args))
	for _, text := range args {
		// ParseInt would take a sign, which no ID is printed with.
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !isDigits(text) {
			return nil, settings.Usagef("%.64q is not an ID: want a decimal number from 0 to 9223372036854775807", text)
		}
		parts, err := layout.Decode(id)
		if err != nil {
			return nil, settings.Usagef("%q: %w", text, err)
		}
		ids = append(ids, decodedID{id: id, parts: parts})
	}
	return ids, nil
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
