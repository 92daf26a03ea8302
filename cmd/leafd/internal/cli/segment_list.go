package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
)

func (a *app) segmentListCmd() *cobra.Command {
	var output string
	var via remote
	var urls []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tags",
		Long: `List the tags, with max_id, the first ID not yet given to any daemon, and step, the smallest range that a daemon takes. Times are UTC.

With --url it is also asked of these daemons which tags are stopped there, and the table has
one column more.`,
		Args: cobra.NoArgs,
	}
	storeFlags(cmd)
	urlsFlag(cmd.Flags(), &urls)
	via.tlsFlags(cmd.Flags())
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkOutput(output, outputText, outputJSON); err != nil {
			return err
		}
		daemons, err := via.openAll(urls)
		if err != nil {
			return err
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, _ settings.Config) error {
			rows, err := store.List(ctx)
			if err != nil {
				return err
			}
			stopped, notAsked := stoppedAt(ctx, daemons)
			if output == outputJSON {
				list := make([]SegmentJSON, 0, len(rows))
				for _, row := range rows {
					j := rowJSON(row)
					j.Stopped = stopped[row.Tag]
					list = append(list, j)
				}
				return errors.Join(printJSON(a.Stdout, list), notAsked)
			}
			table := [][]string{{"TAG", "MAX_ID", "STEP", "UPDATED", "DESCRIPTION"}}
			if len(daemons) > 0 {
				table[0] = append(table[0], "STOPPED")
			}
			for _, row := range rows {
				cells := []string{row.Tag, Decimal(row.MaxID), Decimal(row.Step), updated(row, "2006-01-02 15:04:05"), row.Description}
				if len(daemons) > 0 {
					cells = append(cells, stopWords(stopped[row.Tag]))
				}
				table = append(table, cells)
				delete(stopped, row.Tag)
			}
			for _, tag := range slices.Sorted(maps.Keys(stopped)) { // before they are created
				table = append(table, []string{tag, "-", "-", "-", "not in the table", stopWords(stopped[tag])})
			}
			return errors.Join(printTable(a.Stdout, table), notAsked)
		})
	}
	return cmd
}

// urlsFlag adds --url, which may be given for several daemons.
func urlsFlag(fs *pflag.FlagSet, to *[]string) {
	fs.StringArrayVar(to, "url", nil, "a running daemon, http://host:port, https://host:port or unix:/path; may be given several times")
}

// jsonStop is a stop of a tag on one daemon, for programs.
type jsonStop struct {
	Daemon string `json:"daemon"`
	Reason string `json:"reason,omitempty"`
	Since  string `json:"since"` // RFC 3339, UTC
}

// stoppedAt asks daemons which tags are stopped there. What the others say is
// returned with the errors of those that did not answer.
func stoppedAt(ctx context.Context, daemons []*remoteDaemon) (map[string][]jsonStop, error) {
	all := make(map[string][]jsonStop)
	var failed []error
	for _, d := range daemons {
		if err := d.eachStop(ctx, func(tag string, stop jsonStop) { all[tag] = append(all[tag], stop) }); err != nil {
			failed = append(failed, fmt.Errorf("%s: which tags are stopped is not known: %w", d.named, err))
		}
	}
	return all, errors.Join(failed...)
}

// eachStop calls yield with all tags that are stopped on the daemon, page after page.
func (d *remoteDaemon) eachStop(ctx context.Context, yield func(tag string, stop jsonStop)) error {
	for after := ""; ; {
		text, err := d.ask(ctx, http.MethodGet, "/api/segments?stopped=only&after="+url.QueryEscape(after), nil)
		if err != nil {
			return err
		}
		var page struct {
			Stopped []struct {
				Tag    string       `json:"tag"`
				Reason string       `json:"reason"`
				Since  clock.Millis `json:"since"`
			} `json:"stopped"`
			Next string `json:"next"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return fmt.Errorf("the answer is not leafd's, check --url: %w", err)
		}
		for _, s := range page.Stopped {
			yield(s.Tag, jsonStop{Daemon: d.named, Reason: s.Reason, Since: s.Since.String()})
		}
		if page.Next <= after { // the last page, or no leafd, which would go on for ever
			return nil
		}
		after = page.Next
	}
}

// stopWords is where a tag is stopped, for people.
func stopWords(list []jsonStop) string {
	var words []string
	for _, s := range list {
		word := s.Daemon
		if s.Reason != "" {
			word += " (" + s.Reason + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
