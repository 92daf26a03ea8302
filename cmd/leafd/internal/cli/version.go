package cli

import (
	"cmp"
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
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  leafd version -o json",
	}
	a.outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := a.thisBuild()
		return a.show(b, a.fields(b))
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
	recorded := map[string]string{}
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	return Build{
		Version: cmp.Or(stamped.Version, info.Main.Version, "unknown"), Commit: cmp.Or(stamped.Commit, recorded["vcs.revision"], "unknown"),
		Date: cmp.Or(stamped.Date, recorded["vcs.time"], "unknown"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}
