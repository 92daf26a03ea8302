package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// javaWait is how much longer than --timeout a move may take: a Java Leaf's entry is watched.
const javaWait = 10 * time.Second

// What became of a step of a move.
const (
	stepChecked = "checked"
	stepDone    = "done"
	stepWould   = "would"
	stepNext    = "next" // for the operator
)

// MoveJSON is a move of a worker ID from a Java Leaf, or back, for programs.
type MoveJSON struct {
	Node     string     `json:"node"`
	WorkerID int64      `json:"worker_id"`
	Path     string     `json:"path"`
	DryRun   bool       `json:"dry_run"`
	Changed  bool       `json:"changed"`
	Steps    []MoveStep `json:"steps"`
}

// MoveStep is one thing that was, would be or is to be done.
type MoveStep struct {
	State string `json:"state"` // checked, done, would, or next: for the operator
	Text  string `json:"text"`
}

// moveFields documents MoveJSON in the help.
const moveFields = `-o json prints one object: node, worker_id, path (of the entry), dry_run, changed, and steps, a
list of state (checked, done, would, or next: what is left for you) and text.`

// move is a command that moves a worker ID.
type move struct {
	*app
	MoveJSON

	cfg     settings.Config
	java    inspect.JavaLeaf
	here    bool   // this is the Java Leaf's machine
	dataDir string // absolute
	timeout time.Duration
}

// moveCmd completes a command that moves a worker ID; do does it.
func (a *app) moveCmd(cmd *cobra.Command, do func(m *move, ctx context.Context, found *zkreg.JavaMove) error) *cobra.Command {
	m := &move{app: a}
	var output, http, tmpDir string
	registryFlags(cmd, &m.timeout, "data-dir")
	cmd.Flags().StringVar(&http, "java-http", "", "ip:port at which the Java Leaf answers (server.port), where that is not its entry's name")
	cmd.Flags().StringVar(&tmpDir, "java-tmpdir", "/tmp", "java.io.tmpdir of the Java Leaf")
	cmd.Flags().BoolVar(&m.DryRun, "dry-run", false, "check, and list what would be done, and do nothing")
	outputFlag(cmd, &output, outputText, outputJSON)
	cmd.Long += "\n\n" + moveFields
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if m.cfg, err = a.loadCluster(cmd, m.timeout, output); err != nil {
			return err
		}
		if m.java, err = inspect.NewJavaLeaf(args[0], http, m.cfg.ZooKeeper.ForeverPath, tmpDir); err != nil {
			return err
		}
		if m.dataDir, err = filepath.Abs(m.cfg.DataDir); err != nil {
			return fmt.Errorf("data directory %q: %w", m.cfg.DataDir, err)
		}
		if err := m.java.Stopped(cmd.Context()); err != nil {
			return err
		}
		m.note(stepChecked, "nothing answers at %s", m.java.HTTP)
		m.here = m.java.Here(cmd.Context())
		err = a.cluster(m.cfg, m.timeout+javaWait).WithJavaMove(cmd.Context(), m.java.Address, func(ctx context.Context, found *zkreg.JavaMove) error {
			m.Node, m.WorkerID, m.Path = m.java.Address, found.Entry().WorkerID, found.Path()
			return do(m, ctx, found)
		})
		if err != nil {
			return err
		}
		if output == outputJSON {
			return printJSON(a.Stdout, m.MoveJSON)
		}
		return m.print(a.Stdout)
	}
	return cmd
}

func (m *move) note(state, format string, args ...any) {
	m.Steps = append(m.Steps, MoveStep{state, fmt.Sprintf(format, args...)})
}

// act does one step, or says that it would.
func (m *move) act(what string, do func() error) error {
	if m.DryRun {
		m.note(stepWould, "%s", what)
		return nil
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	m.Changed = true
	m.note(stepDone, "%s", what)
	return nil
}

func (m *move) print(w io.Writer) error {
	if _, err := fmt.Fprintln(w, oneLine(fmt.Sprintf("%s has worker %d: %s", m.Node, m.WorkerID, m.Path))); err != nil {
		return printed(err)
	}
	var rows [][]string
	for _, step := range m.Steps {
		rows = append(rows, []string{step.State, step.Text})
	}
	return printTable(w, rows)
}

// noRecord tells that cache.Peek found a directory that was never used, or whose record was set
// aside: leafd starts there as a new instance.
func noRecord(err error) bool {
	return errors.Is(err, worker.ErrNoRecord) || errors.Is(err, worker.ErrLost)
}

// command is a command for the daemon that takes the Java Leaf's place.
func (m *move) command(verb string) string {
	_, port, _ := strings.Cut(m.java.HTTP, ":")
	command := fmt.Sprintf("leafd %s --zk %s --zk-root %s --zk-forever-path %s --node %s --listen :%s --advertise %s --data-dir %s", verb,
		strings.Join(m.cfg.ZooKeeper.Servers, ","), m.cfg.ZooKeeper.Root, m.cfg.ZooKeeper.ForeverPath, m.java.Address, port, m.java.HTTP, m.dataDir)
	if m.cfg.ZooKeeper.Auth != nil || m.cfg.ZooKeeper.TLS != nil {
		command += " with --zk-auth-file and --zk-tls as here"
	}
	return command
}
