package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

// ForgottenJSON is a tag whose high mark was removed, for programs.
type ForgottenJSON struct {
	Tag  string `json:"tag"`
	High string `json:"high"` // what it was; 0 where there was none
}

func (a *app) segmentForgetCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "forget TAG",
		Short: "Remove what ZooKeeper knows of a deleted tag",
		Long: `Remove the high mark of a deleted tag from ZooKeeper. It stays when a tag is deleted, so that
the tag, made again, goes on above every ID that was ever issued of it. Tags that never come
back, such as those with a date in their name, leave it behind for nothing.

It is refused while the tag is in the table. Wait until running daemons have seen that it was
deleted, two minutes at most. Made again, the tag may repeat IDs of its former life.`,
		Example: "  leafd segment forget sale-2026-11-11 --zk 10.0.0.1:2181 --mysql 'leafd:secret@tcp(10.0.0.9:3306)/leaf'",
		Args:    cobra.ExactArgs(1),
	}
	storeFlags(cmd, settings.ConnectionNames()...)
	outputFlag(cmd, &output)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tag := args[0]
		if err := checkTag(tag); err != nil {
			return err
		}
		return a.withStore(cmd, func(ctx context.Context, store segment.Admin, cfg settings.Config) error {
			switch _, err := find(ctx, store, tag); {
			case err == nil:
				return fmt.Errorf("tag %q is in the table: it is forgotten only once it is deleted, or its IDs could repeat", tag)
			case !errors.Is(err, segment.ErrUnknownTag):
				return err
			}
			high, err := a.cluster(cfg, storeTimeout).ForgetTag(ctx, tag)
			if err != nil {
				return err
			}
			said := sentence("Forgot tag %q, whose IDs went up to %d.", tag, high)
			if high == 0 {
				said = sentence("ZooKeeper knows nothing of a tag %q.", tag)
			}
			return a.show(output, ForgottenJSON{tag, Decimal(high)}, said)
		})
	}
	return cmd
}
