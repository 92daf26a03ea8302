package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// PlanJSON is what a command that can't be taken back would do, and the daemons that it concerns.
type PlanJSON struct {
	Would   string           `json:"would"`
	Daemons []inspect.Member `json:"daemons"`
}

// planFields documents PlanJSON in the help.
const planFields = `would (what --yes does) and daemons, a list of live, worker_id, node, address and found`

// yesFlag adds --yes.
func yesFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "yes", false, "do it; without, show what would be done, and end with exit code 2")
}

// plan shows what --yes would do and the daemons that it concerns, and returns the error that nothing was done.
func (a *app) plan(would string, members []inspect.Member) error {
	err := a.show(PlanJSON{Would: would, Daemons: append([]inspect.Member{}, members...)}, func(w io.Writer) error {
		if len(members) > 0 {
			if err := columns(members)(w); err != nil {
				return err
			}
			live := 0
			for _, m := range members {
				if m.Live {
					live++
				}
			}
			would = strings.TrimSuffix(would, ".") + fmt.Sprintf(". %d live, %d missing.", live, len(members)-live)
		}
		return sentence("Would: %s", would)(w)
	})
	if err != nil {
		return err
	}
	return settings.Usagef("nothing was done: see what is printed, and run it again with --yes; --help says what that risks")
}
