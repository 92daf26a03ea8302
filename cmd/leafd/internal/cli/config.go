package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
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
			text, err := settings.Sample()
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.Stdout, text)
			return printed(err)
		}
		cfg, values, err := a.load(cmd.Context(), cmd.Flags())
		if err != nil {
			return err
		}
		a.warn(cfg.Warnings)
		rows := [][]string{{"NAME", "VALUE", "SOURCE"}}
		for _, s := range values.Public() {
			rows = append(rows, []string{s.Name, s.Text(), string(s.Source)})
		}
		return a.show(values.Public(), table(rows))
	}
	return cmd
}
