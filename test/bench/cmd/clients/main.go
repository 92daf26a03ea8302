// Command clients measures what an application pays for IDs: in Python, Node, Java and Go, with one
// ID a request and lists of 1,000 as a first program has them (ids.py and its like), and with the
// clients of docs/clients (ranges). It prints the table of docs/evidence/clients.txt; `make bench-clients`.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/leafd/leafd/test/bench/internal/figures"
	"github.com/leafd/leafd/test/proctest"
)

// The program is run in the root of the tree.
const here = "test/bench/cmd/clients/"

// language is one that the programs are in; $DIR of its commands is a directory for what is built.
type language struct {
	name, source, build, command string
}

var languages = []language{ //nolint:gochecknoglobals // a table
	{name: "Python", source: "ids.py", command: "env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=client/python python3 " + here + "ids.py"},
	{name: "Node", source: "ids.mjs", command: "node " + here + "ids.mjs"},
	{name: "Java", source: "Ids.java", build: "javac -d $DIR -sourcepath client/java/leafd-client/src/main/java " + here + "Ids.java", command: "java -cp $DIR Ids"},
	{name: "Go", source: "ids/main.go", build: "go -C test/bench build -o $DIR/ids ./cmd/clients/ids", command: "$DIR/ids"},
}

// ways are how IDs are taken, and how many in a measurement.
var ways = []struct { //nolint:gochecknoglobals // a table
	name  string
	calls int
}{
	{"single", 5_000},
	{"list", 500_000},
	{"ranges", 2_000_000},
}

// row is what was measured of a language in one way.
type row struct {
	language language
	lines    int
	rate     []float64 // IDs a second
	client   []float64 // seconds of CPU for a million IDs
	daemon   []float64
	failed   int
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	leafd := flag.String("leafd", "bin/leafd", "the daemon's `program`")
	rounds := flag.Int("rounds", 5, "measurements of each row, of which the median counts")
	paced := flag.Int("paced", 5000, "calls of each row during the kills")
	flag.Parse()
	dir, err := os.MkdirTemp("", "clients-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var daemons [2]*proctest.Daemon
	var configs [2]proctest.Config
	for i := range daemons {
		address, err := proctest.FreeAddress()
		if err != nil {
			return err
		}
		configs[i] = proctest.Config{Address: address, Command: []string{
			*leafd, "serve", "--listen", address, "--data-dir", filepath.Join(dir, fmt.Sprint(i)), "--worker-id", fmt.Sprint(i),
		}}
		if daemons[i], err = start(configs[i]); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, daemons[i].Stop(proctest.Patience)) }()
	}
	rows := map[string]*row{}
	for _, l := range languages {
		if err := l.prepare(dir); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		for _, way := range ways {
			lines, err := l.lines(way.name)
			if err != nil {
				return err
			}
			rows[l.name+way.name] = &row{language: l, lines: lines}
		}
	}
	before, _ := os.ReadFile("/proc/loadavg") // what is not there is left out
	for range *rounds {
		for _, way := range ways {
			for _, l := range languages {
				if err := rows[l.name+way.name].measure(dir, way.name, way.calls, daemons[0]); err != nil {
					return fmt.Errorf("%s, %s: %w", l.name, way.name, err)
				}
			}
		}
	}
	after, _ := os.ReadFile("/proc/loadavg")
	// All at once, each some 500 calls a second: a daemon takes three seconds to start again, and a list of 1,000 lasts for two.
	begun, results := make(chan bool, len(rows)), make(chan error, len(rows))
	for _, way := range ways {
		for _, l := range languages {
			go func() {
				results <- rows[l.name+way.name].count(dir, way.name, *paced, begun, daemons[0].URL, daemons[1].URL)
			}()
		}
	}
	for range rows {
		<-begun
	}
	for i := range daemons {
		if err := daemons[i].End(syscall.SIGKILL); err != nil {
			return err
		}
		if daemons[i], err = start(configs[i]); err != nil {
			return err
		}
	}
	for range rows {
		err = errors.Join(err, <-results)
	}
	if err != nil {
		return err
	}
	fmt.Printf("Load averages before and after: %.14s, %.14s. Failed: of %d calls, 500 a second.\n\n", before, after, *paced)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, err = fmt.Fprintln(table, "    \tlines\tfailed\tIDs/s\t(ratio)\tclient\t\tleafd\t")
	for _, l := range languages {
		first := rows[l.name+ways[0].name]
		for _, way := range ways {
			r := rows[l.name+way.name]
			_, printed := fmt.Fprintf(table, "    %s %s\t%d\t%d\t%s\t%s\t%s\n", l.name, way.name, r.lines, r.failed,
				ratio(r.rate, first.rate, "%.0f"), ratio(r.client, first.client, "%.3g"), ratio(r.daemon, first.daemon, "%.3g"))
			err = errors.Join(err, printed)
		}
	}
	return errors.Join(err, table.Flush())
}

// ratio is a median, and its ratio to that of the first way.
func ratio(values, first []float64, format string) string {
	text := fmt.Sprintf(format, figures.Median(values))
	if &values[0] == &first[0] {
		return text + "\t"
	}
	return text + fmt.Sprintf("\t(%.3g)", figures.MedianRatio(values, first))
}

func start(cfg proctest.Config) (*proctest.Daemon, error) {
	d, err := proctest.StartDaemon(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), proctest.Patience)
	defer cancel()
	return d, d.AwaitReady(ctx)
}

// prepare builds the program, where it has to be.
func (l language) prepare(dir string) error {
	if l.build == "" {
		return nil
	}
	command := strings.Fields(strings.ReplaceAll(l.build, "$DIR", dir))
	if out, err := exec.CommandContext(context.Background(), command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// lines are those that an application has of its own for IDs in that way: without blank ones, imports
// and what measures.
func (l language) lines(way string) (n int, err error) {
	text, err := os.ReadFile(here + l.source)
	if err != nil {
		return 0, err
	}
	counts := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if _, names, found := strings.Cut(line, "-- "); found {
			counts = strings.Contains(names, way)
		} else if counts && line != "" && !strings.HasPrefix(line, "import ") {
			n++
		}
	}
	return n, nil
}

// program is one of an application, that runs.
type program struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func (l language) start(dir, way string, urls ...string) (*program, error) {
	command := append(strings.Fields(strings.ReplaceAll(l.command, "$DIR", dir)), way)
	p := &program{cmd: exec.CommandContext(context.Background(), command[0], append(command[1:], urls...)...)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

// calls has it make that many calls, and returns how many failed.
func (p *program) calls(n int, pause float64) (failed int, err error) {
	if _, err := fmt.Fprintln(p.in, n, pause); err != nil {
		return 0, err
	}
	if !p.lines.Scan() {
		return 0, errors.Join(errors.New("the program ended"), p.lines.Err())
	}
	return strconv.Atoi(p.lines.Text())
}

func (p *program) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// measure makes calls until all is warm, and then as many as are measured.
func (r *row) measure(dir, way string, calls int, d *proctest.Daemon) (err error) {
	p, err := r.language.start(dir, way, d.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if _, err := p.calls(calls/2, 0); err != nil {
		return err
	}
	begins, err := cpu(p.cmd.Process.Pid, d.Pid())
	if err != nil {
		return err
	}
	began := time.Now()
	if failed, err := p.calls(calls, 0); err != nil || failed > calls/100 { // some, since the machine may be busy
		return errors.Join(err, fmt.Errorf("%d calls failed", failed))
	}
	took := time.Since(began)
	ends, err := cpu(p.cmd.Process.Pid, d.Pid())
	millions := float64(calls) / 1e6
	r.rate = append(r.rate, float64(calls)/took.Seconds())
	r.client = append(r.client, (ends[0]-begins[0]).Seconds()/millions)
	r.daemon = append(r.daemon, (ends[1]-begins[1]).Seconds()/millions)
	return err
}

// cpu returns the CPU times of two processes.
func cpu(client, daemon int) (used [2]time.Duration, err error) {
	var failed error
	used[0], err = figures.CPU(client)
	used[1], failed = figures.CPU(daemon)
	return used, errors.Join(err, failed)
}

// count makes calls at a pace, and counts those that fail.
func (r *row) count(dir, way string, calls int, begun chan<- bool, urls ...string) (err error) {
	p, err := r.language.start(dir, way, urls...)
	if err != nil {
		begun <- false
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	_, err = p.calls(1, 0)
	begun <- err == nil
	if err != nil {
		return err
	}
	r.failed, err = p.calls(calls, 0.002)
	return err
}
