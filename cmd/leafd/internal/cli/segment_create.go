package cli

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

// defaultStep of a new tag is that of the Java Leaf's script.
const defaultStep = 2000

func (a *app) segmentCreateCmd() *cobra.Command {
	var row segment.Row
	cmd := &cobra.Command{
		Use:   "create TAG",
		Short: "Create a tag",
		Long: `Create a tag. Its first ID is --max-id, or without it the first above all IDs that the tag is
known to have given: by ZooKeeper (--zk), else by the marks in --data-dir; 1 where nothing is known of it. A lower
--max-id is refused. It has to be given where ZooKeeper does not answer, and without --zk on a database for a name
that was there before: nothing here knows then which IDs other daemons gave.`,
		Example: "  leafd segment create order --step 5000 --description 'order numbers'",
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().Int64Var(&row.MaxID, "max-id", 0, "first ID of the tag (default: above all that is known, 1 for a new tag)")
	cmd.Flags().Int64Var(&row.Step, "step", defaultStep, "smallest range that a daemon takes, about what the tag needs in 15 minutes")
	cmd.Flags().StringVar(&row.Description, "description", "", "what the tag is for")
	return a.storeCommand(cmd, func(ctx context.Context, cfg settings.Config, args []string) error {
		row.Tag = args[0]
		if err := segment.CheckRow(row); err != nil {
			return settings.AsUsage(err)
		}
		if strings.ContainsFunc(row.Tag, segment.Hidden) {
			return settings.Usagef("tag %q has a character that is invisible or turns others round", row.Tag)
		}
		return a.withTable(ctx, cfg, func(ctx context.Context, t *segment.Table) error {
			row, err := t.Create(ctx, row, given(cmd, "max-id", &row.MaxID))
			if err != nil {
				return err
			}
			known := ""
			if t.Guard == nil && !t.Alone && !cmd.Flags().Changed("max-id") {
				known = " Nothing here knows of IDs that it gave before."
			}
			return a.show(rowJSON(row), sentence("Created tag %q: its first ID is %d, its step %d.%s A running daemon serves it at the first request: curl %s/api/segment/get/%s",
				row.Tag, row.MaxID, row.Step, known, cfg.URL(), url.PathEscape(row.Tag)))
		})
	}, "listen", "tls-cert") // for the line that tries it
}
