package cli

import (
	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) idAtCmd() *cobra.Command {
	var output, until string
	cmd := &cobra.Command{
		Use:   "at TIME",
		Short: "Print the first and the last ID of a moment, for range scans by time",
		Long: `Print the first and the last snowflake ID that any worker can have issued in one
millisecond, or, with --until, from the first to the end of the second. So

  SELECT ... WHERE id BETWEEN first AND last

finds the rows of that time by their primary key. A date alone is the one millisecond
that its day starts with: name the end with --until, which is included to its last ID.

` + momentHelp,
		Example: "  leafd id at '2026-11-21 10:00'\n  leafd id at 2026-11-21 --until 2026-11-21T23:59:59.999\n  leafd id at -1h --until now -o json",
		Args:    cobra.ExactArgs(1),
	}
	settings.AddFlags(cmd.Flags(), "layout", "epoch")
	cmd.Flags().StringVar(&until, "until", "", "last moment of the range, in any form of TIME")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
		layout, err := a.loadLayout(cmd, cmd.Flags())
		if err != nil {
			return err
		}
		now := a.wall()
		from, err := parseMoment(args[0], now)
		if err != nil {
			return settings.AsUsage(err)
		}
		to := from
		if cmd.Flags().Changed("until") {
			if to, err = parseMoment(until, now); err != nil {
				return settings.Usagef("--until: %w", err)
			}
		}
		if to < from {
			return settings.Usagef("--until is %s, before TIME, which is %s", to, from)
		}
		first, _, err := layout.Range(from)
		if err != nil {
			return settings.AsUsage(err)
		}
		_, last, err := layout.Range(to)
		if err != nil {
			return settings.Usagef("--until: %w", err)
		}
		if output == outputJSON {
			return printJSON(a.Stdout, jsonRange{
				From: from.String(), Until: to.String(), First: Decimal(first), Last: Decimal(last),
			})
		}
		return printTable(a.Stdout, [][]string{
			{"FIRST", "LAST", "FROM", "UNTIL"},
			{Decimal(first), Decimal(last), from.String(), to.String()},
		})
	}
	return cmd
}

// jsonRange is a range of IDs for programs, both ends included.
type jsonRange struct {
	From  string `json:"from"`
	Until string `json:"until"`
	First string `json:"first"`
	Last  string `json:"last"`
}
