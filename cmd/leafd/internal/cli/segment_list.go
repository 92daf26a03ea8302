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

With --url it lists the tags of these daemons, with the highest max_id that they have seen,
and where a tag is stopped. With --mysql or --data-dir, too, the rows are the store's.`,
		Example: "  leafd segment list --data-dir /var/lib/leafd\n  leafd segment list --url http://10.0.0.5:8080 -o json",
		Args:    cobra.NoArgs,
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
		list := func(rows []segment.Row, stopped map[string][]jsonStop, notAsked error) error {
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
		}
		if len(daemons) > 0 && !a.namesStore(cmd.Flags()) {
			rows, stopped, notAsked := tagsOf(cmd.Context(), daemons)
			return list(rows, stopped, notAsked)
		}
		return a.withStore(cmd, false, func(ctx context.Context, store segment.Admin, _ settings.Config) error {
			rows, err := store.List(ctx)
			if err != nil {
				return err
			}
			stopped, notAsked := stoppedAt(ctx, daemons)
			return list(rows, stopped, notAsked)
		})
	}
	return cmd
}

// namesStore tells whether the user has said which store is meant.
func (a *app) namesStore(fs *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{"mysql", "data-dir", "config"}, func(name string) bool {
		return fs.Changed(name) || a.Env["LEAFD_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] != ""
	})
}

// tagsOf asks daemons for their tags: rows with the highest max_id that any has seen. What the
// others say is returned with the errors of those that did not answer.
func tagsOf(ctx context.Context, daemons []*remoteDaemon) ([]segment.Row, map[string][]jsonStop, error) {
	rows, stopped := map[string]segment.Row{}, make(map[string][]jsonStop)
	var failed []error
	for _, d := range daemons {
		err := d.eachPage(ctx, "", func(page segmentsPage) {
			for _, s := range page.Segments {
				rows[s.Tag] = segment.Row{Tag: s.Tag, MaxID: max(s.High, rows[s.Tag].MaxID), Step: s.Step}
			}
			page.addStops(d, stopped)
		})
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: its tags are not known: %w", d.named, err))
		}
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b segment.Row) int { return strings.Compare(a.Tag, b.Tag) }), stopped, errors.Join(failed...)
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
		if err := d.eachPage(ctx, "stopped=only&", func(page segmentsPage) { page.addStops(d, all) }); err != nil {
			failed = append(failed, fmt.Errorf("%s: which tags are stopped is not known: %w", d.named, err))
		}
	}
	return all, errors.Join(failed...)
}

// segmentsPage is an answer to GET /api/segments.
type segmentsPage struct {
	Segments []struct {
		Tag  string `json:"tag"`
		High int64  `json:"high,string"`
		Step int64  `json:"table_step,string"`
	} `json:"segments"`
	Stopped []struct {
		Tag    string       `json:"tag"`
		Reason string       `json:"reason"`
		Since  clock.Millis `json:"since"`
	} `json:"stopped"`
	Next string `json:"next"`
}

func (p segmentsPage) addStops(d *remoteDaemon, to map[string][]jsonStop) {
	for _, s := range p.Stopped {
		to[s.Tag] = append(to[s.Tag], jsonStop{Daemon: d.named, Reason: s.Reason, Since: s.Since.String()})
	}
}

// eachPage calls yield with all pages of the daemon's tags.
func (d *remoteDaemon) eachPage(ctx context.Context, query string, yield func(segmentsPage)) error {
	for after := ""; ; {
		text, err := d.ask(ctx, http.MethodGet, "/api/segments?"+query+"after="+url.QueryEscape(after), nil)
		if err != nil {
			return err
		}
		var page segmentsPage
		if err := json.Unmarshal(text, &page); err != nil {
			return fmt.Errorf("the answer is not leafd's, check --url: %w", err)
		}
		yield(page)
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
