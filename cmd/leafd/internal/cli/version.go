package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// thisBuild returns what was stamped, else what the Go tool recorded.
func (a *app) thisBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return makeBuild(a.Build, info)
}

func (a *app) versionCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  leafd version -o json",
		Args:    cobra.NoArgs,
	}
	outputFlag(cmd, &output)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := a.thisBuild()
		return a.show(output, b, table([][]string{
			{"version", b.Version}, {"commit", b.Commit}, {"date", b.Date}, {"go", b.Go}, {"platform", b.Platform},
		}))
	}
	return cmd
}

// Build is what the program knows of its own making.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"` // of the commit or the build, RFC 3339
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func makeBuild(stamped Build, info *debug.BuildInfo) Build {
	b := stamped
	recorded := map[string]string{}
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	if b.Version == "" && info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	if b.Commit == "" && recorded["vcs.revision"] != "" {
		b.Commit = recorded["vcs.revision"]
		if recorded["vcs.modified"] == "true" {
			b.Commit += " (modified)"
		}
	}
	if b.Date == "" {
		b.Date = recorded["vcs.time"]
	}
	for _, field := range []*string{&b.Version, &b.Commit, &b.Date} {
		if *field == "" {
			*field = "unknown"
		}
	}
	b.Go, b.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	return b
}
