package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/deploy"
)

func (a *app) configCmd() *cobra.Command {
	var sample bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings that serve would run with, and where each comes from",
		Long: `Print the settings that "leafd serve" would run with, given the same flags, the same
environment and the same file, and where each comes from: flag, env, file or default.
Nothing is started. Passwords are not printed.`,
		Example: "  leafd config --config /etc/leafd/leafd.yaml\n  leafd config --sample > leafd.yaml",
	}
	settings.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&sample, "sample", false, "print a config file with every setting explained, and its default")
	a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if sample {
			_, err := io.WriteString(a.Stdout, deploy.Sample)
			return printed(err)
		}
		cfg, values, err := a.load(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		a.warn(cfg.Warnings)
		rows := [][]string{{"NAME", "VALUE", "SOURCE"}}
		for _, v := range values.All {
			rows = append(rows, []string{v.Name, v.Text(), v.Source})
		}
		return a.show(values.All, table(rows))
	}
	return cmd
}
