package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leafd/leafd/test/chaos/mutants"
	"github.com/leafd/leafd/test/chaos/nemesis"
)

// errSurvived tells that a guard can be taken out unnoticed.
var errSurvived = errors.New("mutants that nothing found")

// mutantTime is how long a mutant is looked for.
const mutantTime = 200 * time.Second

// runMutants is the command mutants: names are those to run; none: all.
func runMutants(ctx context.Context, o options, names []string, stdout io.Writer) error {
	var survived []string
	rows := []string{"| guard taken out | faults | seed | found by | after |", "| --- | --- | --- | --- | --- |"}
	for _, m := range mutants.All() {
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		row, found, err := runMutant(ctx, o, m, stdout)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if !found {
			survived = append(survived, m.Name)
		}
		rows = append(rows, row)
	}
	fmt.Fprintf(stdout, "\n%s\n", strings.Join(rows, "\n")) //nolint:errcheck // there is nowhere left to report it
	if len(survived) > 0 {
		return fmt.Errorf("%w: %w: %q", errViolation, errSurvived, survived)
	}
	return nil
}

func runMutant(ctx context.Context, o options, m mutants.Mutant, stdout io.Writer) (row string, found bool, err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	overlay, err := m.Overlay(".", dir)
	if err != nil {
		return "", false, err
	}
	if m.Mix == "" {
		return testMutant(ctx, m, overlay, stdout)
	}
	o.leafd = filepath.Join(dir, "leafd")
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "chaos", "-pgo=off", "-overlay", overlay, "-o", o.leafd, "./cmd/leafd").CombinedOutput()
	if err != nil {
		return "", false, fmt.Errorf("go build: %w: %s", err, out)
	}
	if o.mixText == "" {
		o.mixText = m.Mix
		if o.mix, err = nemesis.ParseMix(m.Mix); err != nil {
			return "", false, err
		}
	}
	o.seed, o.duration, o.keep = m.Seed, mutantTime, false
	var lines bytes.Buffer
	got, err := torment(ctx, o, &lines)
	if err != nil {
		return "", false, fmt.Errorf("%w\n%s", err, lines.String())
	}
	if got.violation == nil {
		fmt.Fprintf(stdout, "%s: NOT found in %s\n%s\n", m.Name, got.found.Round(time.Second), lines.String()) //nolint:errcheck // there is nowhere left to report it
		return fmt.Sprintf("| %s | %s | %d | nothing | |", m.Guard, m.Mix, m.Seed), false, nil
	}
	fmt.Fprintf(stdout, "%s: found after %.1f s: %v\n", m.Name, got.found.Seconds(), got.violation) //nolint:errcheck // there is nowhere left to report it
	return fmt.Sprintf("| %s | %s | %d | %s | %.1f s |", m.Guard, m.Mix, m.Seed, got.violation.Rule, got.found.Seconds()), true, nil
}

// testMutant has a test look for a mutant, as a rule the random walk.
func testMutant(ctx context.Context, m mutants.Mutant, overlay string, stdout io.Writer) (row string, found bool, err error) {
	mix, by, pkg, test := "a random walk", "the walk", "./test/walktest", "TestRandomWalkRepeatsNoID"
	if m.Test != "" {
		pkg, test, _ = strings.Cut(m.Test, " ")
		mix, by = "", test
	}
	binary := filepath.Join(filepath.Dir(overlay), "mutant.test")
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", binary, pkg).CombinedOutput()
	if err != nil {
		return "", false, fmt.Errorf("go test -c: %w: %s", err, out)
	}
	began := time.Now()
	run := exec.CommandContext(ctx, binary, "-test.run", "^"+test+"$", "-test.failfast", "-test.timeout", mutantTime.String())
	run.Dir = pkg
	out, err = run.CombinedOutput()
	took := time.Since(began)
	var failed *exec.ExitError
	switch why := regexp.MustCompile(`(?s)\tError: +\t(.*?)\n +\tTest:`).FindSubmatch(out); {
	case err == nil:
		fmt.Fprintf(stdout, "%s: NOT found in %s\n", m.Name, took.Round(time.Second)) //nolint:errcheck // there is nowhere left to report it
		return fmt.Sprintf("| %s | %s | | nothing | |", m.Guard, mix), false, nil
	case !errors.As(err, &failed) || why == nil:
		return "", false, fmt.Errorf("%s: %w: %s", test, err, out)
	default:
		fmt.Fprintf(stdout, "%s: found after %.1f s: %s\n", m.Name, took.Seconds(), why[1]) //nolint:errcheck // there is nowhere left to report it
		return fmt.Sprintf("| %s | %s | | %s | %.1f s |", m.Guard, mix, by, took.Seconds()), true, nil
	}
}
