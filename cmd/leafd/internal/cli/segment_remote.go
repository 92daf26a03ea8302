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

// changeFlags adds the flags of a command that changes a tag: straight in the
// store, or through a daemon where --url names one.
func changeFlags(cmd *cobra.Command, via *remote) {
	storeFlags(cmd)
	via.flags(cmd.Flags(), "", "daemon to make the change through instead of in the store: it logs who did, and serves the change at once")
	via.tokenFlag(cmd.Flags())
}

// changer returns the daemon that --url names; nil where the store is to be
// changed directly.
func (r *remote) changer(cmd *cobra.Command) (*remoteDaemon, error) {
	fs := cmd.Flags()
	if r.url == "" {
		for _, name := range []string{"url", "ca-file", "cert-file", "key-file", "admin-token-file"} {
			if fs.Changed(name) {
				return nil, settings.Usagef("--%s is for a change through a daemon: give --url with it", name)
			}
		}
		return nil, nil //nolint:nilnil // none is meant
	}
	for _, name := range []string{"mysql", "data-dir"} {
		if fs.Changed(name) {
			return nil, settings.Usagef("--url and --%s exclude each other: the change goes through the daemon, or straight into the store", name)
		}
	}
	if r.adminToken == "" {
		return nil, settings.Usagef("--url needs --admin-token-file: the daemon changes tags for the bearer of its admin token only")
	}
	return r.open()
}

// tagChange is a change of one tag: through a daemon or straight in the store, each of
// which returns the row, and what is told of it.
type tagChange struct {
	through  func(ctx context.Context, d *remoteDaemon) (segment.Row, error)
	direct   func(ctx context.Context, store segment.Admin) (segment.Row, error)
	sentence func(row segment.Row) string
}

// changeTag makes the change where cmd's flags say, and prints the row. create allows
// the store itself to be created.
func (a *app) changeTag(cmd *cobra.Command, via *remote, create bool, output string, c tagChange) error {
	tell := func(row segment.Row, err error, seen string) error {
		if err != nil {
			return err
		}
		if output == outputJSON {
			return printJSON(a.Stdout, rowJSON(row))
		}
		_, err = fmt.Fprintf(a.Stdout, "%s %s\n", c.sentence(row), seen)
		return printed(err)
	}
	daemon, err := via.changer(cmd)
	if err != nil {
		return err
	}
	if daemon != nil {
		row, err := c.through(cmd.Context(), daemon)
		return tell(row, err, seenByOthers)
	}
	return a.withStore(cmd, create, func(ctx context.Context, store segment.Admin, cfg settings.Config) error {
		row, err := c.direct(ctx, store)
		return tell(row, err, seenBy(cfg))
	})
}

// TagPath is the path of a tag, or of something about it.
func TagPath(tag, more string) string { return "/api/segments/" + url.PathEscape(tag) + more }

// create makes a tag through the daemon.
func (d *remoteDaemon) create(ctx context.Context, row segment.Row) (segment.Row, error) {
	return d.change(ctx, http.MethodPost, "/api/segments", map[string]string{
		"tag": row.Tag, "max_id": Decimal(row.MaxID), "step": Decimal(row.Step), "description": row.Description,
	})
}

// update changes what isn't nil, and returns the row as it is then.
func (d *remoteDaemon) update(ctx context.Context, tag string, step *int64, description *string) (segment.Row, error) {
	change := map[string]string{}
	if step != nil {
		change["step"] = Decimal(*step)
	}
	if description != nil {
		change["description"] = *description
	}
	return d.change(ctx, http.MethodPatch, TagPath(tag, ""), change)
}

// remove deletes a tag, and returns the row as it was.
func (d *remoteDaemon) remove(ctx context.Context, tag string) (segment.Row, error) {
	return d.change(ctx, http.MethodDelete, TagPath(tag, ""), nil)
}

func (d *remoteDaemon) change(ctx context.Context, method, path string, body map[string]string) (segment.Row, error) {
	var send any
	if body != nil {
		send = body
	}
	text, err := d.ask(ctx, method, path, send)
	if err != nil {
		return segment.Row{}, err
	}
	var row struct {
		Tag         string `json:"tag"`
		MaxID       int64  `json:"max_id,string"`
		Step        int64  `json:"step,string"`
		Description string `json:"description"`
	}
	if err := json.Unmarshal(text, &row); err != nil || row.Tag == "" {
		return segment.Row{}, fmt.Errorf("the server's answer is not leafd's, check --url (and see with leafd segment list whether the change was made): %.80q", text)
	}
	return segment.Row{Tag: row.Tag, MaxID: row.MaxID, Step: row.Step, Description: row.Description}, nil
}

// seenByOthers tells when the daemons notice that the change didn't go through.
const seenByOthers = "This daemon serves it now; the others see it within their --segment-refresh."
