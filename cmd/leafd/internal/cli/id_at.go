package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) idAtCmd() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "at TIME",
		Short: "Print the first and the last ID of a moment, for range scans by time",
		Long: `Print the first and the last snowflake ID that any worker can have issued in one
millisecond, or on one day, which is a day of UTC. So

  SELECT ... WHERE id BETWEEN first AND last

finds the rows of that time by their primary key. With --max-ahead the last one is that of as much later.

` + momentHelp,
		Example: "  leafd id at '2026-11-21 10:00'\n  leafd id at 2026-11-21 -o json",
		Args:    cobra.ExactArgs(1),
	}, func(_ context.Context, cfg settings.Config, args []string) error {
		from, until, err := parseMoment(args[0])
		if err != nil {
			return settings.AsUsage(err)
		}
		first, _, early := cfg.Snowflake.Layout.Range(from)
		_, last, late := cfg.Snowflake.Layout.Range(until.Add(cfg.Snowflake.Ahead))
		if err := cmp.Or(early, late); err != nil {
			return settings.AsUsage(err)
		}
		answer := jsonRange{From: from.String(), Until: until.String(), First: Decimal(first), Last: Decimal(last)}
		return a.show(answer, columns([]jsonRange{answer}, "first", "last", "from", "until"))
	}, "layout", "epoch", "max-ahead")
}

// jsonRange is a range of IDs for programs, both ends included.
type jsonRange struct {
	From  string `json:"from"`
	Until string `json:"until"`
	First string `json:"first"`
	Last  string `json:"last"`
}
