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

All checks run at once. Each line is OK, WARN (a daemon starts, and an operator should see to
it), FAIL, or SKIP (it failed too, because of another one), the name of the check, what was
found, and behind an arrow what to do. The last line says what to do first, about the worst of them.

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
		exam := examination(doctor.SettingsResults(cfg, err))
		if err == nil {
			p := &doctor.Patient{Cfg: cfg, Clock: a.Clock, Values: values, Timeout: a.timeout}
			exam = append(exam, p.Run(cmd.Context())...)
		}
		verdict := exam.verdict()
		err = a.show(exam.json(), exam.print)
		if err == nil && verdict != nil && a.output == outputText {
			return inspect.Reword(verdict, "") // the last line has said it
		}
		return errors.Join(err, verdict)
	}
	return cmd
}

// examination is the results of all checks.
type examination []doctor.Result

// verdict is the error that the command ends with; nil where all is well.
func (e examination) verdict() error {
	failed := 0
	for _, r := range e {
		if r.Status == doctor.Fail {
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	worst := e.worst()
	return inspect.Reword(worst.Err, fmt.Sprintf("%d of %d checks failed: see %s", failed, len(e), worst.Check))
}

// worst is the worst finding, and of those that are as bad the first; nil where there is none.
func (e examination) worst() *doctor.Result {
	worst := slices.MaxFunc(e, func(x, y doctor.Result) int { return severity(x) - severity(y) }) // the first of equals
	if severity(worst) == 0 {
		return nil
	}
	return &worst
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

// DoctorJSON is the examination for programs.
type DoctorJSON struct {
	Status   doctor.Status   `json:"status"`
	ExitCode int             `json:"exit_code"`
	First    *DoFirst        `json:"first,omitempty"`
	Results  []doctor.Result `json:"results"`
}

// DoFirst is what to do first, and the check that says so.
type DoFirst struct {
	Check string `json:"check"`
	Do    string `json:"do"`
}

func (e examination) json() DoctorJSON {
	status := doctor.OK
	if worst := e.worst(); worst != nil {
		status = worst.Status
	}
	return DoctorJSON{Status: status, ExitCode: ExitCode(e.verdict()), First: e.first(), Results: e}
}

// first is what the worst finding wants done; nil where nothing is to be done.
func (e examination) first() *DoFirst {
	worst := e.worst()
	if worst == nil || severity(*worst) == 1 {
		return nil
	}
	return &DoFirst{Check: worst.Check, Do: cmp.Or(worst.Do, worst.Found)}
}

func (e examination) print(w io.Writer) error {
	count := map[doctor.Status]int{}
	var table [][]string
	for _, r := range e {
		count[r.Status]++
		text := r.Found
		if r.Do != "" {
			text += " -> " + r.Do
		}
		table = append(table, []string{strings.ToUpper(string(r.Status)), r.Check, strings.ReplaceAll(text, "\n", " ")})
	}
	if err := printTable(w, table); err != nil {
		return err
	}
	last := fmt.Sprintf("%d checks: %d ok, %d warn, %d failed, %d skipped.", len(e), count[doctor.OK], count[doctor.Warn], count[doctor.Fail], count[doctor.Skip])
	if first := e.first(); first != nil {
		last += fmt.Sprintf("\nFirst, %s: %s", first.Check, oneLine(first.Do))
	}
	_, err := fmt.Fprintln(w, last)
	return printed(err)
}
