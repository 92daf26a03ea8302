package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/doctor"
)

func (a *app) doctorCmd() *cobra.Command {
	var output string
	var strict bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether a daemon would start here and stay well, and say what to do",
		Long: `Look whether "leafd serve", given the same flags, the same environment and the same file,
would start here and stay well: settings, addresses, the data folder, ZooKeeper, the
database, the clock, the machine's limits, and what alarms need. It may run before the
first start, and beside a running daemon, which it doesn't disturb. Run it as the user that
leafd serve runs as.

Nothing is written, but for one small file in the data folder, which is removed again.
Whether ZooKeeper allows what a daemon writes is found out by a transaction that can't
succeed, and what the database allows by having statements explained.

All checks run at once. Each line is OK, WARN (a daemon starts, and somebody should look at
it) or FAIL, the name of the check, what was found, and behind an arrow what to do.

Exit codes: 0 nothing failed; else that of the first failed check which has one of its own,
as the daemon's would be: 2 settings, 3 the clock would be refused, 4 the identity is held by
another process, 5 no worker ID is left; else 1. With --strict a warning is a failure, too.

-o json prints one object: status (ok, warn or fail), exit_code, and results, a list of
check, status, found and do.`,
		Example: "  leafd doctor --config /etc/leafd/leafd.yaml\n  leafd doctor --zk 10.0.0.1:2181 -o json",
		Args:    cobra.NoArgs,
	}
	addSettings(cmd.Flags())
	cmd.Flags().BoolVar(&strict, "strict", false, "let warnings fail, too")
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "longest that any one check may take")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(checkOutput(output, outputText, outputJSON), checkTimeout(timeout)); err != nil {
			return asUsage(err)
		}
		cfg, values, err := a.loadConfig(cmd.Context(), cmd.Flags())
		exam := examination{strict: strict, results: settingsResults(cfg, err)}
		if err == nil {
			p := &patient{app: a, cfg: cfg, values: values, timeout: timeout}
			exam.results = append(exam.results, doctor.Run(cmd.Context(), p.checks())...)
		}
		if output == outputJSON {
			err = printJSON(a.Stdout, exam.json())
		} else {
			err = exam.print(a.Stdout)
		}
		return errors.Join(err, exam.verdict())
	}
	return cmd
}

// settingsResults are the lines about the settings, which were read with err.
func settingsResults(cfg Config, err error) []doctor.Result {
	const check = "settings"
	fix := func(text string) doctor.Result {
		return doctor.Result{Check: check, Status: doctor.Fail, Found: text, Do: "correct it; leafd config shows what each setting comes to", Err: err}
	}
	var results []doctor.Result
	if problems := settingsError(nil); errors.As(err, &problems) {
		for _, problem := range problems {
			results = append(results, fix(problem))
		}
		return results
	}
	if err != nil {
		return append(results, fix(err.Error()))
	}
	for _, warning := range cfg.Warnings {
		results = append(results, doctor.Result{Check: check, Status: doctor.Warn, Found: warning})
	}
	if len(results) == 0 {
		results = append(results, doctor.Result{Check: check, Status: doctor.OK, Found: fmt.Sprintf("all %d can be used", len(settings()))})
	}
	return results
}

// examination is what the checks found.
type examination struct {
	strict  bool
	results []doctor.Result
}

// verdict is the error that the command ends with; nil where all is well.
func (e examination) verdict() error {
	failed, warned := 0, 0
	var first *doctor.Result
	for i, r := range e.results {
		switch r.Status {
		case doctor.Fail:
			failed++
			if first == nil || exitCode(first.Err) <= exitFailure && exitCode(r.Err) > exitFailure {
				first = &e.results[i]
			}
		case doctor.Warn:
			warned++
		default:
		}
	}
	switch {
	case first != nil && first.Err != nil:
		return &saidError{first.Err, fmt.Sprintf("%d of %d checks failed: see %s", failed, len(e.results), first.Check)}
	case first != nil:
		return fmt.Errorf("%d of %d checks failed: see %s", failed, len(e.results), first.Check)
	case e.strict && warned > 0:
		return fmt.Errorf("%d of %d checks warn, and --strict lets none of them pass", warned, len(e.results))
	}
	return nil
}

// jsonExamination is the examination for programs.
type jsonExamination struct {
	Status   doctor.Status   `json:"status"`
	ExitCode int             `json:"exit_code"`
	Results  []doctor.Result `json:"results"`
}

func (e examination) json() jsonExamination {
	status, _ := doctor.Worst(e.results)
	return jsonExamination{Status: status, ExitCode: exitCode(e.verdict()), Results: e.results}
}

func (e examination) print(w io.Writer) error {
	count := map[doctor.Status]int{}
	var table [][]string
	for _, r := range e.results {
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
	_, err := fmt.Fprintf(w, "%d checks: %d ok, %d warn, %d failed.\n", len(e.results), count[doctor.OK], count[doctor.Warn], count[doctor.Fail])
	return printed(err)
}

// patient is a daemon that may be started one day, or runs.
type patient struct {
	app     *app
	cfg     Config
	values  *values
	timeout time.Duration
}

// checks are all that these settings call for, in the order in which a start meets
// them.
func (p *patient) checks() []doctor.Check {
	folder := doctor.Folder{Path: p.cfg.DataDir, Only: p.onlyMemory(), Clock: p.app.Clock}
	machine := doctor.Machine{Connections: maxConnections}
	checks := []doctor.Check{
		{Name: "listen", Run: p.listen},
		{Name: "listeners", Run: p.others},
		{Name: "advertise", Run: p.advertise},
		{Name: "data-dir", Run: folder.Check},
		{Name: "data-lock", Run: p.lock},
	}
	if p.cfg.Segment {
		checks = append(checks, doctor.Check{Name: "marks", Run: p.marks})
		if p.cfg.MySQL == "" {
			checks = append(checks, doctor.Check{Name: "segments", Run: p.sqlite})
		} else {
			checks = append(checks, doctor.Check{Name: "mysql", Run: p.mysql})
		}
	}
	if p.cfg.Snowflake {
		checks = append(checks, doctor.Check{Name: "record", Run: p.record})
		if len(p.cfg.ZK) > 0 {
			checks = append(checks,
				doctor.Check{Name: "zookeeper", Run: p.servers},
				doctor.Check{Name: "zk-node", Run: p.node},
				doctor.Check{Name: "zk-rights", Run: p.rights},
				doctor.Check{Name: "peers", Run: p.peers},
			)
		} else {
			checks = append(checks, doctor.Check{Name: "zookeeper", Run: p.standalone})
		}
		checks = append(checks, doctor.Check{Name: "layout", Run: p.layout})
	}
	checks = append(checks,
		doctor.Check{Name: "ntp", Run: machine.Clock},
		doctor.Check{Name: "limits", Run: machine.Limits},
		doctor.Check{Name: "alarms", Run: p.alarms},
		doctor.Check{Name: "tls", Run: p.certificates},
	)
	for i := range checks {
		checks[i].Limit = p.timeout
	}
	return checks
}

// onlyMemory tells that the data folder alone remembers what was issued.
func (p *patient) onlyMemory() bool {
	return p.cfg.Snowflake && len(p.cfg.ZK) == 0 || p.cfg.Segment && p.cfg.MySQL == ""
}

// standalone says what it means that there is no ZooKeeper.
func (p *patient) standalone(_ context.Context, r *doctor.Report) {
	r.OK("zookeeper", "standalone, worker ID %d: nobody checks that no other daemon has it", p.cfg.WorkerID)
}
