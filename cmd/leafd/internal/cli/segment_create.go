package cli

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

// Defaults of a new tag: those of the Java Leaf's script.
const (
	defaultMaxID = 1
	defaultStep  = 2000
)

func (a *app) segmentCreateCmd() *cobra.Command {
	var output string
	var row segment.Row
	cmd := &cobra.Command{
		Use:   "create TAG",
		Short: "Create a tag",
		Long: `Create a tag. Its first ID is --max-id. For a tag that was there before, that has to be
above every ID it ever gave: lower IDs would repeat.`,
		Example: "  leafd segment create order --step 5000 --description 'order numbers'",
		Args:    cobra.ExactArgs(1),
	}
	storeFlags(cmd)
	cmd.Flags().Int64Var(&row.MaxID, "max-id", defaultMaxID, "first ID of the tag")
	cmd.Flags().Int64Var(&row.Step, "step", defaultStep, "smallest range that a daemon takes, about what the tag needs in 15 minutes")
	cmd.Flags().StringVar(&row.Description, "description", "", "what the tag is for")
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		row.Tag = args[0]
		if err := checkCreate(row); err != nil {
			return err
		}
		return a.changeTag(cmd, output, func(ctx context.Context, store segment.Admin) (segment.Row, error) {
			return row, store.Create(ctx, row)
		}, func(row segment.Row) string {
			return fmt.Sprintf("Created tag %q: its first ID is %d, its step %d.", row.Tag, row.MaxID, row.Step)
		})
	}
	return cmd
}

func checkCreate(row segment.Row) error {
	if err := checkTag(row.Tag); err != nil {
		return err
	}
	for _, r := range row.Tag {
		if segment.Hidden(r) {
			return settings.Usagef("tag %q has the character %U, which nobody sees or which turns others round", row.Tag, r)
		}
	}
	if err := checkStep(row.Step); err != nil {
		return err
	}
	if row.MaxID < 0 {
		return settings.Usagef("--max-id is %d: want 0 or more", row.MaxID)
	}
	if row.MaxID > math.MaxInt64-row.Step {
		return settings.Usagef("--max-id is %d: with --step %d the first range would pass %d, the last ID there is", row.MaxID, row.Step, int64(math.MaxInt64))
	}
	return nil
}
