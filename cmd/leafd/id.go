package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leafd/leafd/snowflake"
)

func (a *app) idCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "id",
		Short: "Get IDs, and take them apart",
	}, a.idNextCmd(), a.idDecodeCmd(), a.idAtCmd())
}

// loadLayout is the layout that a command shall read IDs by.
func (a *app) loadLayout(cmd *cobra.Command, fs *pflag.FlagSet) (snowflake.Layout, error) {
	cfg, _, err := a.loadConfig(cmd.Context(), fs)
	if err != nil {
		return snowflake.Layout{}, err
	}
	a.warn(cfg.Warnings)
	return cfg.Layout, nil
}
