package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/segment/sqlstore"
	"github.com/leafd/leafd/zkreg"
)

// completionTime is how long a completion may ask: somebody has pressed a key and waits. What
// doesn't answer by then offers nothing, and says nothing.
const completionTime = time.Second

// mostOffered bounds what one completion offers.
const mostOffered = 1000

// typable are words that a shell inserts as they are. Tags and names of nodes were chosen by
// others: completed, "$(…)" would be run.
var typable = regexp.MustCompile(`^[\pL\pN_./@+=%][\pL\pN_./@+=%:,-]*$`)

// wordsAnnotation names, on a flag that is no setting, the words that it takes.
const wordsAnnotation = "leafd_words"

// takes notes that a flag takes these words.
func takes(fs *pflag.FlagSet, flag string, words ...string) {
	_ = fs.SetAnnotation(flag, wordsAnnotation, words) // it only fails where there is no such flag
}

// isCompletion tells that a shell's script asks what could follow. Only then is what
// answers it set up, which cobra keeps in a global variable.
func isCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// complete gives cmd and all below it the completions of arguments, by what their usage calls
// these, and of flags, by their settings, annotations and names.
func (a *app) complete(cmd *cobra.Command) {
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	if words := strings.Fields(cmd.Use); len(words) > 1 && cmd.ValidArgsFunction == nil {
		switch words[1] {
		case "TAG":
			cmd.ValidArgsFunction = first(a.tags)
		case "ID|NODE":
			cmd.ValidArgsFunction = first(func(cmd *cobra.Command, _ string) []string {
				ids, nodes := a.workers(cmd)
				return append(ids, nodes...)
			})
		case "IP:PORT":
			cmd.ValidArgsFunction = first(func(cmd *cobra.Command, _ string) []string {
				_, nodes := a.workers(cmd)
				return slices.DeleteFunc(nodes, func(n string) bool { return !strings.Contains(n, ":") })
			})
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if offer := a.values(cmd, f); offer != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, offer) // it only fails where that was done before
		}
	})
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
}

// values returns what completes the value of a flag; nil where nothing does.
func (a *app) values(cmd *cobra.Command, f *pflag.Flag) cobra.CompletionFunc {
	s, _ := settings.Of(f)
	words := slices.Concat(s.Words, s.Offer, f.Annotations[wordsAnnotation])
	switch {
	case s.Kind == settings.KindList, f.Value.Type() == "stringSlice" && words != nil:
		return listOf(words)
	case words != nil:
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	case f.Value.Type() == string(settings.KindFile), strings.HasSuffix(f.Name, "-file"):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)
	case s.Kind == settings.KindDirectory, strings.HasSuffix(f.Name, "-dir"):
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case f.Name == "tag":
		return offering(a.tags)
	case f.Name == "key" && cmd.Flags().Lookup("mode") != nil:
		return offering(func(cmd *cobra.Command, typed string) []string {
			if cmd.Flags().Lookup("mode").Value.String() != string(loadtest.Segment) {
				return nil
			}
			return a.tags(cmd, typed)
		})
	}
	return nil
}

// offering makes a completion of what is offered for what is typed so far.
func offering(offer func(cmd *cobra.Command, typed string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		var fit []string
		for _, word := range offer(cmd, typed) {
			plain, _, _ := strings.Cut(word, "\t")
			if strings.HasPrefix(plain, typed) && typable.MatchString(plain) && len(fit) < mostOffered {
				fit = append(fit, word)
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// first is offering for the first argument alone.
func first(offer func(cmd *cobra.Command, typed string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offering(offer)(cmd, args, typed)
	}
}

// listOf completes the last of words that commas separate by one that isn't there yet.
func listOf(words []string) cobra.CompletionFunc {
	return offering(func(_ *cobra.Command, typed string) []string {
		given := typed[:strings.LastIndex(typed, ",")+1]
		var list []string
		for _, word := range words {
			if !slices.Contains(strings.Split(given, ","), word) {
				list = append(list, given+word)
			}
		}
		return list
	})
}

// tags are those of the first daemon that --url names, else those of the store.
func (a *app) tags(cmd *cobra.Command, typed string) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	text := func(name string) string {
		if f := cmd.Flags().Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	via := remote{url: text("url"), ca: text("ca-file"), cert: text("cert-file"), key: text("key-file")}
	if urls, err := cmd.Flags().GetStringArray("url"); err == nil {
		via.url = strings.Join(urls[:min(len(urls), 1)], "")
	}
	if via.url != "" {
		return via.tags(ctx, typed)
	}
	if cmd.Flags().Lookup("mysql") == nil {
		return nil
	}
	cfg, _, err := a.load(ctx, cmd.Flags())
	if err != nil {
		return nil
	}
	store, err := sqlstore.Open(cfg.Store(false))
	if err != nil {
		return nil
	}
	defer store.Close() //nolint:errcheck // it was only read
	rows, err := store.List(ctx)
	if err != nil {
		return nil
	}
	tags := make([]string, 0, len(rows))
	for _, row := range rows {
		tags = append(tags, row.Tag+"\t"+oneLine(row.Description))
	}
	return tags
}

// tags asks the daemon for the page of its tags that begins where those do that typed begins.
func (r *remote) tags(ctx context.Context, typed string) []string {
	daemon, err := r.open()
	if err != nil {
		return nil
	}
	_, last := utf8.DecodeLastRuneInString(typed) // a page begins behind its cursor, and typed may be a tag
	text, err := daemon.ask(ctx, http.MethodGet, "/api/segments?after="+url.QueryEscape(typed[:len(typed)-last]), nil)
	var page segmentsPage
	if err != nil || json.Unmarshal(text, &page) != nil {
		return nil
	}
	var tags []string
	for _, s := range page.Segments {
		tags = append(tags, s.Tag)
	}
	return tags
}

// workers are the worker IDs that have an entry in ZooKeeper, and their nodes.
func (a *app) workers(cmd *cobra.Command) (ids, nodes []string) {
	cfg, _, err := a.load(cmd.Context(), cmd.Flags())
	if err != nil {
		return nil, nil
	}
	now := a.wall()
	_ = a.cluster(cfg, completionTime).WithDirectory(cmd.Context(), func(ctx context.Context, dir *zkreg.Directory) error {
		entries, err := dir.Entries(ctx)
		for _, e := range entries {
			state := inspect.ViewEntry(e, now).Shown
			ids = append(ids, Decimal(e.WorkerID)+"\t"+state+", "+oneLine(e.Node))
			nodes = append(nodes, e.Node+"\t"+state+", worker "+Decimal(e.WorkerID))
		}
		return err
	})
	return ids, nodes
}
