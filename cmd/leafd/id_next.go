package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Bounds of `id next`. The slowest answer waits for a segment, half a second
// unless set otherwise; the largest holds a million IDs.
const (
	nextTimeout  = 15 * time.Second
	dialTimeout  = 5 * time.Second
	maxNextBytes = 32 << 20
)

// nextFlags are the flags of `id next`.
type nextFlags struct {
	url, tag, key, output string
	n                     int
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
	fs.StringVar(&flags.url, "url", "http://127.0.0.1:8080", "where the daemon serves HTTP")
	fs.StringVar(&flags.tag, "tag", "", "segment tag to get IDs of, instead of snowflake IDs")
	fs.StringVar(&flags.key, "key", "leafd", "key of the snowflake IDs: what they are for; it changes nothing of them")
	fs.IntVarP(&flags.n, "count", "n", 1, "how many IDs, at most the daemon's --max-batch")
	outputFlag(cmd, &flags.output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		target, err := flags.target(cmd.Flags().Changed("tag"), cmd.Flags().Changed("key"))
		if err != nil {
			return err
		}
		ids, err := getIDs(cmd.Context(), target, flags.n)
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

// target checks the flags and returns the URL that they ask for.
func (f nextFlags) target(tagSet, keySet bool) (string, error) {
	if err := checkOutput(f.output, outputText, outputJSON); err != nil {
		return "", err
	}
	base, err := url.Parse(f.url)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "":
		return "", usagef("--url is %q: want http://host:port", f.url)
	case base.User != nil:
		return "", usagef("--url has a user and password: the daemon asks for none")
	case f.n < 1:
		return "", usagef("--count is %d: want 1 or more", f.n)
	case tagSet && keySet:
		return "", usagef("--tag and --key exclude each other: a tag is for segment IDs, a key for snowflake IDs")
	case tagSet && f.tag == "":
		return "", usagef(`--tag is "": want the name of a tag`)
	case f.key == "":
		return "", usagef(`--key is "": want a word`)
	}
	mode, name := "snowflake", f.key
	if tagSet {
		mode, name = "segment", f.tag
	}
	target := strings.TrimSuffix(f.url, "/") + "/api/" + mode + "/get/" + url.PathEscape(name)
	return target + "?n=" + strconv.Itoa(f.n), nil
}

// idsAnswer is the daemon's answer, and the output for programs.
type idsAnswer struct {
	IDs []string `json:"ids"`
}

// refusal is the daemon's answer when it doesn't give IDs.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// getIDs asks the daemon for n IDs. It asks once: an answer that got lost may
// have taken IDs already, which is for the user to know.
func getIDs(ctx context.Context, target string, n int) (idsAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, nextTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return idsAnswer{}, usagef("--url: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	// No proxy from the environment: one that keeps answers would hand out
	// IDs twice.
	transport := &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return idsAnswer{}, unreachable(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxNextBytes))
	if err != nil {
		return idsAnswer{}, fmt.Errorf("the daemon's answer broke off: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return idsAnswer{}, refused(response.Status, body)
	}
	return readAnswer(body, n)
}

// unreachable says what to do about a daemon that can't be reached.
func unreachable(err error) error {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		return fmt.Errorf("no answer from %s: %w; is leafd serve running there? --url names another", urlErr.URL, urlErr.Err)
	}
	return fmt.Errorf("no answer from the daemon: %w", err)
}

func refused(status string, body []byte) error {
	var r refusal
	if err := json.Unmarshal(body, &r); err != nil || r.Code == "" {
		return fmt.Errorf("the server answered %s, and not as leafd does; check --url", status)
	}
	return fmt.Errorf("the daemon refused (HTTP %s): %s: %s", status, oneLine(r.Code), oneLine(r.Message))
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
		if _, err := strconv.ParseInt(id, 10, 64); err != nil {
			return idsAnswer{}, fmt.Errorf("the server gave %.64q for an ID, check --url", id)
		}
	}
	return answer, nil
}
