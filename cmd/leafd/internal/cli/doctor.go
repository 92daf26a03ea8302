package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

func (a *app) doctorCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a daemon would start here and keep working, and say what to do",
		Long: `Check whether "leafd serve", given the same flags, the same environment and the same file,
would start here and keep working: settings, addresses, the data directory, ZooKeeper, the
database, the clock, the machine's limits, and what alarms need. It may run before the
first start, and beside a running daemon, which it doesn't disturb. Run it as the user that
leafd serve runs as.

Nothing is written except one small file in the data directory, which is removed again.
Whether ZooKeeper allows what a daemon writes is found out by a transaction that can't
succeed, and what the database allows by EXPLAIN.

Where a setting is wrong it asks the daemon that runs with the settings of before, and
leaves the other checks out. Else all checks run at once. Each line is OK, WARN (a daemon
starts, and an operator should see to it), FAIL, or SKIP (left out, or failed because of
another one), the name of the check, what was found, and behind an arrow what to do. The
last line says what to do first, about the worst of them.

Exit codes: 0 nothing failed; else that of the first failed check which has one of its own,
as the daemon's would be: 2 settings, 3 the clock would be refused, 4 the identity is held by
another process, 5 no worker ID is left; else 1.

-o json prints one object: status (ok, warn or fail), exit_code, first (what to do first, as
check and do), and results, a list of check, status (skip, too), found and do.`,
		Example: "  leafd doctor --config /etc/leafd/leafd.yaml\n  leafd doctor --zk 10.0.0.1:2181 -o json",
	}
	settings.AddFlags(cmd.Flags())
	a.timeoutFlag(cmd, "longest that any one check may take")
	a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, values, err := a.load(cmd.Context(), cmd.Flags())
		results := doctor.SettingsResults(cfg, err)
		p := &doctor.Patient{Cfg: cfg, Clock: a.Clock, Values: values, Timeout: a.timeout}
		if err == nil {
			defer a.waits("the checks, for %s each at most (--timeout)", settings.Short(a.timeout))()
			results = append(results, p.Run(cmd.Context())...)
		} else {
			results = append(results, p.Running(cmd.Context())...)
		}
		found := doctorJSON(results)
		err = a.show(found, found.print)
		if err == nil && found.failed != nil && a.output == outputText {
			return inspect.Reword(found.failed, "") // the last line has said it
		}
		return errors.Join(err, found.failed)
	}
	return cmd
}

// DoctorJSON is the results of all checks for programs.
type DoctorJSON struct {
	Status   doctor.Status   `json:"status"`
	ExitCode int             `json:"exit_code"`
	First    *DoFirst        `json:"first,omitempty"` // nil where nothing is to be done
	Results  []doctor.Result `json:"results"`
	count    map[doctor.Status]int
	failed   error // that the command ends with; nil where no check failed
}

// DoFirst is what to do first, and the check that says so.
type DoFirst struct {
	Check string `json:"check"`
	Do    string `json:"do"`
}

func doctorJSON(results []doctor.Result) DoctorJSON {
	d := DoctorJSON{Status: doctor.OK, Results: results, count: map[doctor.Status]int{}}
	for _, r := range results {
		d.count[r.Status]++
	}
	worst := slices.MaxFunc(results, func(x, y doctor.Result) int { return severity(x) - severity(y) }) // the first of equals
	if severity(worst) > 0 {
		d.Status = worst.Status
	}
	if severity(worst) > 1 {
		d.First = &DoFirst{Check: worst.Check, Do: cmp.Or(worst.Do, worst.Found)}
	}
	if n := d.count[doctor.Fail]; n > 0 {
		d.failed = inspect.Reword(worst.Err, fmt.Sprintf("%d of %d checks failed: see %s", n, len(results), worst.Check))
	}
	d.ExitCode = ExitCode(d.failed)
	return d
}

// severity ranks findings: a Fail with an exit code of its own first, and last a warning of how
// things are set up, which was so yesterday, too, and one about which nothing is to be done.
func severity(r doctor.Result) int {
	setUp := []string{"settings", "advertise", "access", "data-dir", "data-fs", "mysql-commits", "alarm-webhook", "open-files"}
	switch {
	case r.Status == doctor.Fail && ExitCode(r.Err) > ExitFailure:
		return 5
	case r.Status == doctor.Fail:
		return 4
	case r.Status != doctor.Warn:
		return 0
	case strings.HasPrefix(r.Do, "nothing"):
		return 1
	case slices.Contains(setUp, r.Check):
		return 2
	default:
		return 3
	}
}

func (d DoctorJSON) print(w io.Writer) error {
	var rows [][]string
	for _, r := range d.Results {
		text := r.Found
		if r.Do != "" {
			text += " -> " + r.Do
		}
		rows = append(rows, []string{strings.ToUpper(string(r.Status)), r.Check, strings.ReplaceAll(text, "\n", " ")})
	}
	if err := table(rows)(w); err != nil {
		return err
	}
	last := fmt.Sprintf("%d checks: %d ok, %d warn, %d failed, %d skipped.", len(d.Results), d.count[doctor.OK], d.count[doctor.Warn], d.count[doctor.Fail], d.count[doctor.Skip])
	if d.First != nil {
		last += fmt.Sprintf("\nFirst, %s: %s", d.First.Check, oneLine(d.First.Do))
	}
	_, err := fmt.Fprintln(w, last)
	return printed(err)
}
