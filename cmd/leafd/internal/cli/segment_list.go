package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentListCmd() *cobra.Command {
	var output string
	var via remote
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tags",
		Long: `List the tags, with max_id, the first ID not yet given to any daemon, and step, the smallest range that a daemon takes. Times are UTC.

With --url it lists the tags of this daemon, with the highest max_id that it has seen.`,
		Example: "  leafd segment list --data-dir /var/lib/leafd\n  leafd segment list --url http://10.0.0.5:8080 -o json",
		Args:    cobra.NoArgs,
	}
	storeFlags(cmd)
	via.flags(cmd.Flags(), "", "a running daemon")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
		if via.url != "" {
			daemon, err := via.open()
			if err != nil {
				return err
			}
			rows, err := daemon.tags(cmd.Context())
			if err != nil {
				return err
			}
			return a.printTags(rows, output)
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, _ settings.Config) error {
			rows, err := store.List(ctx)
			if err != nil {
				return err
			}
			return a.printTags(rows, output)
		})
	}
	return cmd
}

func (a *app) printTags(rows []segment.Row, output string) error {
	if output == outputJSON {
		list := make([]SegmentJSON, 0, len(rows))
		for _, row := range rows {
			list = append(list, rowJSON(row))
		}
		return printJSON(a.Stdout, list)
	}
	table := [][]string{{"TAG", "MAX_ID", "STEP", "UPDATED", "DESCRIPTION"}}
	for _, row := range rows {
		table = append(table, []string{row.Tag, Decimal(row.MaxID), Decimal(row.Step), updated(row, "2006-01-02 15:04:05"), row.Description})
	}
	return printTable(a.Stdout, table)
}

// segmentsPage is an answer to GET /api/segments.
type segmentsPage struct {
	Segments []struct {
		Tag  string `json:"tag"`
		High int64  `json:"high,string"`
		Step int64  `json:"table_step,string"`
	} `json:"segments"`
	Next string `json:"next"`
}

// tags asks the daemon for its tags, page by page.
func (d *remoteDaemon) tags(ctx context.Context) ([]segment.Row, error) {
	var rows []segment.Row
	for after := ""; ; {
		text, err := d.ask(ctx, http.MethodGet, "/api/segments?after="+url.QueryEscape(after), nil)
		if err != nil {
			return nil, err
		}
		var page segmentsPage
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("the answer is not leafd's, check --url: %w", err)
		}
		for _, s := range page.Segments {
			rows = append(rows, segment.Row{Tag: s.Tag, MaxID: s.High, Step: s.Step})
		}
		if page.Next <= after { // the last page, or no leafd, which would go on for ever
			return rows, nil
		}
		after = page.Next
	}
}
