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
)

// mutantTime is how long a mutant is looked for.
const mutantTime = 200 * time.Second

// runMutants is the command mutants: names are those to run; none: all.
func runMutants(ctx context.Context, o options, names []string, stdout io.Writer) error {
	var survived []string
	for _, m := range mutants.All() {
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		after, by, err := runMutant(ctx, o, m)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		if by == "" {
			survived, by = append(survived, m.Name), "NOT found"
		}
		fmt.Fprintf(stdout, "%6.1f s  %s\n          %s\n", after.Seconds(), m.Guard, by) //nolint:errcheck // there is nowhere left to report it
	}
	if len(survived) > 0 {
		return fmt.Errorf("%w: mutants that nothing found: %q", errBroken, survived)
	}
	return nil
}

// runMutant returns what found m, "" for nothing, and after which time.
func runMutant(ctx context.Context, o options, m mutants.Mutant) (after time.Duration, by string, err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	overlay, err := m.Overlay(".", dir)
	if err != nil {
		return 0, "", err
	}
	if m.Mix == "" {
		return testMutant(ctx, m, overlay)
	}
	o.leafd, o.mix, o.seed, o.duration = filepath.Join(dir, "leafd"), m.Mix, m.Seed, mutantTime
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "chaos", "-pgo=off", "-overlay", overlay, "-o", o.leafd, "./cmd/leafd").CombinedOutput()
	if err != nil {
		return 0, "", fmt.Errorf("go build: %w: %s", err, out)
	}
	var lines strings.Builder
	after, err = torment(ctx, o, dir, &lines)
	switch {
	case errors.Is(err, errBroken):
		first, _, _ := strings.Cut(err.Error(), "\n")
		return after, m.Mix + ": " + first, nil
	case err != nil:
		return 0, "", fmt.Errorf("%w\n%s", err, lines.String())
	}
	return after, "", nil
}

// testMutant has a test look for a mutant.
func testMutant(ctx context.Context, m mutants.Mutant, overlay string) (after time.Duration, by string, err error) {
	pkg, test, _ := strings.Cut(m.Test, " ")
	binary := filepath.Join(filepath.Dir(overlay), "mutant.test")
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-pgo=off", "-overlay", overlay, "-o", binary, pkg).CombinedOutput()
	if err != nil {
		return 0, "", fmt.Errorf("go test -c: %w: %s", err, out)
	}
	began := time.Now()
	run := exec.CommandContext(ctx, binary, "-test.run", "^("+test+")$", "-test.failfast", "-test.timeout", mutantTime.String())
	run.Dir = pkg
	out, err = run.CombinedOutput()
	after = time.Since(began)
	switch why := regexp.MustCompile(`(?s)\tError: +\t(.*?)\n`).FindSubmatch(out); {
	case err == nil && !bytes.Contains(out, []byte("no tests to run")):
		return after, "", nil
	case why == nil:
		return 0, "", fmt.Errorf("%s: %w: %s", test, err, out)
	default:
		return after, test + ": " + string(why[1]), nil
	}
}
