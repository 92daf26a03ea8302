package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) supportCmd() *cobra.Command {
	var via remote
	cmd := &cobra.Command{
		Use:   "support [FILE]",
		Short: "Write one archive for a report: settings, findings, what the daemon and ZooKeeper tell",
		Long: `Write one archive (tar.gz), for a report of something that went wrong: the settings without
secrets, what leafd doctor finds, what the daemon tells over HTTP (readiness, alarms, clocks, tags,
history, metrics), its goroutines where --admin-listen and --admin-token-file are set, and the
root and the entries in ZooKeeper. What can't be got is named in missing.txt, with the reason.

Passwords, DSNs, tokens and the URL of the webhook are left out, wherever they stand. Addresses,
names of nodes and of tags are in it.

The daemon is asked where its settings say that it listens, or at --url.`,
		Example: "  leafd support\n  leafd support --config /etc/leafd/leafd.yaml /tmp/leafd.tar.gz",
		Args:    cobra.MaximumNArgs(1),
	}
	settings.AddFlags(cmd.Flags())
	via.flags(cmd.Flags())
	a.timeoutFlag(cmd, "longest that any one check may take, and ZooKeeper; the daemon has twice that")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, values, err := a.load(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		defer a.waits("the checks, the daemon and ZooKeeper, for %s each at most (--timeout)", settings.Short(a.timeout))()
		b := &bundle{at: a.wall().Time(), hide: cfg.Secrets()}
		b.json("version.json", a.thisBuild())
		var hidden []*settings.Value
		for _, v := range values.All {
			hidden = append(hidden, v.Hidden())
		}
		b.json("settings.json", hidden)
		checks := &doctor.Patient{Cfg: cfg, Clock: a.Clock, Values: values, Timeout: a.timeout}
		b.json("doctor.json", doctorJSON(append(doctor.SettingsResults(cfg, nil), checks.Run(cmd.Context())...)))
		if !cmd.Flags().Changed("url") {
			if via.url = cfg.URL(); cfg.Listen.Unix != "" {
				via.url = cfg.Listen.Unix
			}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*a.timeout)
		defer cancel()
		supportHTTP(ctx, b, cfg, via)
		if len(cfg.ZooKeeper.Servers) > 0 {
			b.failed("zookeeper", a.onCluster(cmd.Context(), cfg, func(ctx context.Context, at site) error {
				s, failed := at.dir.Status(ctx)
				if failed == nil {
					b.json("zookeeper-root.json", clusterJSON(cfg, s))
				}
				list, err := inspect.ListWorkers(ctx, at.dir, cfg.Snowflake.Layout, a.wall)
				if err == nil {
					b.json("zookeeper-entries.json", list)
				}
				return errors.Join(failed, err)
			}))
		}
		path := fmt.Sprintf("leafd-support-%s.tar.gz", b.at.Format("20060102T150405Z"))
		if len(args) > 0 {
			path = args[0]
		}
		if err := b.write(path); err != nil {
			return err
		}
		return sentence("Wrote %s: %d files, %d missing (missing.txt says why). Secrets are left out; addresses, names of nodes and of tags are in it.", path, len(b.files), len(b.missing))(a.Stdout)
	}
	return cmd
}

// supportHTTP adds what the daemon tells.
func supportHTTP(ctx context.Context, b *bundle, cfg settings.Config, public remote) {
	admin := public
	if cfg.Listen.Admin != "" {
		admin.url = cfg.URLOf(cfg.Listen.Admin)
	}
	for _, get := range []struct {
		name, target, token string
		via                 remote
	}{
		{"readyz.json", "/readyz", "", public},
		{"overview.json", "/api/overview", "", admin},
		{"history.json", "/api/history", "", admin},
		{"clock.json", "/api/clock", "", public},
		{"worker.json", "/api/worker", "", public},
		{"workers.json", "/api/workers", "", admin},
		{"segments.json", "/api/segments", "", admin},
		{"metrics.txt", "/metrics", "", admin},
		{"goroutines.txt", "/debug/pprof/goroutine?debug=2", cfg.HTTP.AdminToken, admin},
	} {
		text, err := get.via.ask(ctx, get.target, get.token)
		if err != nil && (text == nil || get.name != "readyz.json") { // its refusal says why
			b.failed(get.name, err)
			continue
		}
		b.add(get.name, text)
	}
}

// bundle is the files of an archive. It keeps:
//
// No file has a secret of the settings, whichever part has told it: hide is taken out of
// each, long ones first, which may have others in them.
type bundle struct {
	at      time.Time
	hide    []string
	files   []bundled
	missing []string // what could not be got, and why
}

type bundled struct {
	name string
	text []byte
}

func (b *bundle) add(name string, text []byte) { b.files = append(b.files, bundled{name, text}) }

func (b *bundle) json(name string, v any) {
	var text strings.Builder
	if err := printJSON(&text, v); err != nil {
		b.failed(name, err)
		return
	}
	b.add(name, []byte(text.String()))
}

// failed notes why there is no such file; nil is no failure.
func (b *bundle) failed(name string, err error) {
	if err != nil {
		b.missing = append(b.missing, name+": "+err.Error())
	}
}

// write makes the archive, which must not be there yet, for its owner alone.
func (b *bundle) write(path string) (err error) {
	if len(b.missing) > 0 {
		b.add("missing.txt", []byte(strings.Join(b.missing, "\n")+"\n"))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the archive: %w", err)
	}
	packed := gzip.NewWriter(f)
	archive := tar.NewWriter(packed)
	defer func() {
		if err = errors.Join(err, archive.Close(), packed.Close(), f.Close()); err != nil {
			err = fmt.Errorf("the archive: %w", errors.Join(err, os.Remove(path)))
		}
	}()
	hidden := b.hidden()
	for _, file := range b.files {
		text := hidden.Replace(string(file.text))
		header := &tar.Header{Name: "leafd-support/" + file.name, Mode: 0o600, Size: int64(len(text)), ModTime: b.at}
		if err = archive.WriteHeader(header); err == nil {
			_, err = archive.Write([]byte(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hidden replaces the secrets, as they are and as JSON and URLs have them.
func (b *bundle) hidden() *strings.Replacer {
	slices.SortFunc(b.hide, func(x, y string) int { return len(y) - len(x) })
	var pairs []string
	for _, secret := range b.hide {
		quoted := strconv.Quote(secret) // as JSON and the log have it
		pairs = append(pairs, secret, "(hidden)", quoted[1:len(quoted)-1], "(hidden)", url.QueryEscape(secret), "(hidden)")
	}
	return strings.NewReplacer(pairs...)
}
