package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// ForgottenJSON is a tag of which what was kept is removed, for programs.
type ForgottenJSON struct {
	Tag  string `json:"tag"`
	High string `json:"high"` // where its IDs ended
}

func (a *app) segmentForgetCmd() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "forget TAG | --prefix PREFIX",
		Short: "Remove what is kept of deleted tags",
		Long: `Remove what is kept of a deleted tag, or of all whose names begin with --prefix: the high mark
in ZooKeeper (--zk), and the mark in --data-dir; marks of other daemons are in their directories.
They stay when a tag is deleted, so that the tag, made again, goes on above every ID that was ever
issued of it. Tags that never come back, such as those with a date in their name, leave
them behind without use.

Tags that are in the table are never forgotten. Wait until running daemons have seen that a tag
was deleted, an hour and two minutes at most; they forget it themselves when they start again. Made
again, it may repeat IDs that it gave before.`,
		Example: "  leafd segment forget --prefix sale-2026- --zk 10.0.0.1:2181 --mysql 'leafd:secret@tcp(10.0.0.9:3306)/leaf'",
		Args:    cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "all deleted tags whose names begin with this")
	return a.storeCommand(cmd, func(ctx context.Context, cfg settings.Config, args []string) error {
		if (len(args) == 1) == (prefix != "") {
			return settings.Usagef("want a tag, or --prefix with the beginning of many")
		}
		chosen := func(tag string) bool { return strings.HasPrefix(tag, prefix) }
		if prefix == "" {
			chosen = func(tag string) bool { return tag == args[0] }
		}
		return a.withStore(ctx, cfg, true, func(bounded context.Context, k kept) error {
			highs, inTable, err := k.deleted(bounded, chosen)
			if err != nil {
				return err
			}
			if prefix == "" && inTable > 0 {
				return fmt.Errorf("tag %q is in the table: it is forgotten only once it is deleted, or its IDs could repeat", args[0])
			}
			if err := k.forget(ctx, highs); err != nil {
				return err
			}
			list := []ForgottenJSON{}
			for _, tag := range slices.Sorted(maps.Keys(highs)) {
				list = append(list, ForgottenJSON{tag, Decimal(highs[tag])})
			}
			if len(list) == 0 {
				return a.show(list, sentence("Nothing is kept of such a deleted tag."))
			}
			return a.show(list, columns(list))
		})
	})
}

// deleted returns what is to be forgotten: where the IDs ended of the chosen tags that have no row, and how
// many have one. The table is read last: a tag that is made meanwhile is in it.
func (k kept) deleted(ctx context.Context, chosen func(tag string) bool) (highs map[string]int64, inTable int, err error) {
	highs = map[string]int64{}
	keep := func(tag string, high int64) {
		if chosen(tag) {
			highs[tag] = max(highs[tag], high)
		}
	}
	if k.guard != nil {
		tags, err := k.guard.Tags(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, tag := range tags {
			keep(tag, 0)
		}
	}
	if k.marks != nil {
		if err := k.marks.Marks(ctx, keep); err != nil {
			return nil, 0, err
		}
	}
	rows, err := k.store.List(ctx)
	for _, row := range rows {
		if chosen(row.Tag) {
			inTable++
			delete(highs, row.Tag)
		}
	}
	return highs, inTable, err
}

// forget removes what is kept of the tags in highs, from ZooKeeper first: a try that was broken off can be
// repeated.
func (k kept) forget(ctx context.Context, highs map[string]int64) error {
	for tag := range highs {
		if k.guard == nil {
			break
		}
		bounded, cancel := context.WithTimeout(ctx, storeTimeout)
		high, err := k.guard.Forget(bounded, tag)
		cancel()
		if err != nil {
			return err
		}
		highs[tag] = max(highs[tag], high)
	}
	if k.marks == nil {
		return nil
	}
	return k.marks.Forget(ctx, slices.Collect(maps.Keys(highs)))
}
