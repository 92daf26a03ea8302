package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// nextFlags are the flags of `id next`.
type nextFlags struct {
	via              remote
	tag, key, output string
	n                int
}

func (a *app) idNextCmd() *cobra.Command {
	var flags nextFlags
	cmd := &cobra.Command{
		Use:     "next",
		Short:   "Get IDs from a running daemon",
		Long:    `Get IDs from a running daemon, snowflake IDs or, with --tag, those of a segment tag.`,
		Example: "  leafd id next\n  leafd id next -n 100 --tag leaf-segment-test",
		Args:    cobra.NoArgs,
	}
	fs := cmd.Flags()
	flags.via.flags(fs, "http://127.0.0.1:8080", "where the daemon serves HTTP")
	fs.StringVar(&flags.tag, "tag", "", "segment tag to get IDs of, instead of snowflake IDs")
	fs.StringVar(&flags.key, "key", "leafd", "key of the snowflake IDs: what they are for; it changes nothing of them")
	fs.IntVarP(&flags.n, "count", "n", 1, "how many IDs, at most the daemon's --max-batch")
	outputFlag(cmd, &flags.output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		target, err := flags.target(cmd.Flags().Changed("tag"), cmd.Flags().Changed("key"))
		if err != nil {
			return err
		}
		daemon, err := flags.via.open()
		if err != nil {
			return err
		}
		ids, err := getIDs(cmd.Context(), daemon, target, flags.n)
		if err != nil {
			return err
		}
		if flags.output == outputJSON {
			return printJSON(a.Stdout, ids)
		}
		_, err = fmt.Fprintln(a.Stdout, strings.Join(ids.IDs, "\n"))
		return printed(err)
	}
	return cmd
}

// target checks the flags and returns the path and query that they ask for.
func (f nextFlags) target(tagSet, keySet bool) (string, error) {
	if err := checkOutput(f.output, outputText, outputJSON); err != nil {
		return "", err
	}
	switch {
	case f.n < 1:
		return "", settings.Usagef("--count is %d: want 1 or more", f.n)
	case tagSet && keySet:
		return "", settings.Usagef("--tag and --key exclude each other: a tag is for segment IDs, a key for snowflake IDs")
	case tagSet && f.tag == "":
		return "", settings.Usagef(`--tag is "": want the name of a tag`)
	case f.key == "":
		return "", settings.Usagef(`--key is "": want a word`)
	}
	mode, name := "snowflake", f.key
	if tagSet {
		mode, name = "segment", f.tag
	}
	return "/api/" + mode + "/get/" + url.PathEscape(name) + "?n=" + strconv.Itoa(f.n), nil
}

// idsAnswer is the daemon's answer, and the output for programs.
type idsAnswer struct {
	IDs []string `json:"ids"`
}

// getIDs asks the daemon for n IDs.
func getIDs(ctx context.Context, daemon *remoteDaemon, target string, n int) (idsAnswer, error) {
	body, err := daemon.ask(ctx, http.MethodGet, target, nil)
	if err != nil {
		return idsAnswer{}, err
	}
	return readAnswer(body, n)
}

// readAnswer returns the IDs of body, which has to hold n of them: decimal
// numbers, so that nothing else's page is taken for IDs.
func readAnswer(body []byte, n int) (idsAnswer, error) {
	var answer idsAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return idsAnswer{}, fmt.Errorf("the server's answer is not leafd's, check --url: %w", err)
	}
	if len(answer.IDs) != n {
		return idsAnswer{}, fmt.Errorf("the server gave %d IDs instead of %d, check --url", len(answer.IDs), n)
	}
	for _, id := range answer.IDs {
		// As leafd writes it, and nothing else that is a number too.
		if n, err := strconv.ParseInt(id, 10, 64); err != nil || n < 0 || Decimal(n) != id {
			return idsAnswer{}, fmt.Errorf("the server gave %.64q for an ID, check --url", id)
		}
	}
	return answer, nil
}
