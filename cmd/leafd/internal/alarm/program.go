package alarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// runTimeout is how long the program may run.
	runTimeout = 10 * time.Second
	// pipeGrace is how long its output is waited for after its end: a child of
	// its may hold it open.
	pipeGrace = time.Second
	// tailBytes is how much of its output is told when it fails.
	tailBytes = 1 << 10
)

// program runs a program for each alarm, one at a time.
type program struct {
	path    string
	timeout time.Duration
}

func newProgram(name string) (*program, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("%w: the program can't be run: %w", ErrConfig, err)
	}
	// The working directory may change; the program is the one that was found.
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("%w: the program %s: %w", ErrConfig, name, err)
	}
	return &program{path: path, timeout: runTimeout}, nil
}

// deliver implements deliverer. The program gets the alarm as JSON on its
// standard input, and the most important of it in its environment. It is not run
// again when it fails: what it did by then is its own.
func (p *program) deliver(work, _ context.Context, n notice) error {
	ctx, cancel := context.WithTimeout(work, p.timeout)
	defer cancel()
	var output tail
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Stdin = bytes.NewReader(n.body)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.Env = append(withoutSettings(os.Environ()),
		"LEAFD_ALARM_CODE="+noNUL(string(n.Code)), "LEAFD_ALARM_MESSAGE="+noNUL(n.Message), "LEAFD_ALARM_NODE="+noNUL(n.Node))
	cmd.WaitDelay = pipeGrace
	killGroup(cmd)
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && work.Err() == nil:
		err = fmt.Errorf("killed after %s: %w", p.timeout, err)
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // it ended well; something that it started lives on
	}
	return fmt.Errorf("%s: %w; its output ends with %q", p.path, err, output.String())
}

// withoutSettings leaves leafd's own settings out: passwords are among them.
func withoutSettings(environ []string) []string {
	kept := make([]string, 0, len(environ)+3)
	for _, e := range environ {
		if !strings.HasPrefix(e, "LEAFD_") {
			kept = append(kept, e)
		}
	}
	return kept
}

// noNUL makes s fit for an environment.
func noNUL(s string) string { return strings.ReplaceAll(s, "\x00", " ") }

// tail keeps the end of what is written to it.
type tail struct {
	kept []byte
	cut  bool
}

// Write keeps the end of p.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.kept) - tailBytes; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns the end of what was written.
func (t *tail) String() string {
	s := strings.ToValidUTF8(string(t.kept), "?")
	if t.cut {
		return "…" + s
	}
	return s
}
