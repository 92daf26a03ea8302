package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) idNextCmd() *cobra.Command {
	var via remote
	var tag string
	var n int
	cmd := &cobra.Command{
		Use:     "next",
		Short:   "Get IDs from a running daemon",
		Long:    `Get IDs from a running daemon, snowflake IDs or, with --tag, those of a segment tag.`,
		Example: "  leafd id next\n  leafd id next -n 100 --tag leaf-segment-test",
	}
	settings.AddFlags(cmd.Flags(), listenNames...)
	via.flags(cmd.Flags())
	cmd.Flags().StringVar(&tag, "tag", "", "segment tag to get IDs of, instead of snowflake IDs")
	cmd.Flags().IntVarP(&n, "count", "n", 1, "how many IDs, at most the daemon's --max-batch")
	a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		target := "/api/snowflake/get/leafd"
		switch {
		case n < 1:
			return settings.Usagef("--count is %d: want 1 or more", n)
		case tag != "":
			target = "/api/segment/get/" + url.PathEscape(tag)
		case cmd.Flags().Changed("tag"):
			return settings.Usagef(`--tag is "": want the name of a tag`)
		}
		var err error
		if via.url, err = a.urlOr(cmd, via.url); err != nil {
			return err
		}
		defer a.waits("the daemon at %s, for %s at most", via.url, remoteTimeout)()
		body, err := via.get(cmd.Context(), target+"?n="+strconv.Itoa(n))
		if err != nil {
			return err
		}
		ids, err := readAnswer(body, n)
		if err != nil {
			return err
		}
		return a.show(ids, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, strings.Join(ids.IDs, "\n"))
			return printed(err)
		})
	}
	return cmd
}

// idsAnswer is the daemon's answer, and the output for programs.
type idsAnswer struct {
	IDs []string `json:"ids"`
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
