package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/ids"
	"github.com/leafd/leafd/snowflake"
)

func (a *app) idCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "id",
		Short: "Get IDs, and decode them",
	}, a.idNextCmd(), a.idDecodeCmd(), a.idAtCmd())
}

func (a *app) idDecodeCmd() *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "decode ID...",
		Short: "Decode snowflake IDs",
		Long: `Decode snowflake IDs: their time (UTC), worker, sequence and, where the layout
has one, datacenter. No daemon is asked.
The layout is that of the settings, and has to be the one that the IDs were made with.`,
		Example: "  leafd id decode 1234567890123456789 2124080377352974378",
		Args:    cobra.MinimumNArgs(1),
	}, func(_ context.Context, cfg settings.Config, args []string) error {
		ids, err := readIDs(args, cfg.Snowflake.Layout)
		if err != nil {
			return err
		}
		return a.show(ids, columns(ids, "id", "time", "worker", "sequence", "datacenter"))
	}, "layout", "epoch")
}

// readIDs decodes args. One bad ID fails all: a program must not take part of an answer for
// the whole.
func readIDs(args []string, layout snowflake.Layout) ([]ids.Decoded, error) {
	all := make([]ids.Decoded, 0, len(args))
	for _, text := range args {
		d, err := ids.Decode(text, layout)
		if err != nil {
			return nil, settings.Usagef("%.64q: %w", text, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// Decimal returns n in decimal digits.
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }
