package main

import "github.com/spf13/cobra"

func (a *app) clockCmd() *cobra.Command {
	return group(&cobra.Command{
		Use:   "clock",
		Short: "Compare this machine's clock with those of the daemons",
	}, a.clockCheckCmd())
}
