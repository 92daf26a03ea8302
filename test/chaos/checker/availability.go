package checker

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/leafd/leafd/test/chaos/history"
)

// Rows of the time without a fault, and with several.
const (
	Calm    = "no fault"
	Several = "several at once"
)

// Availability counts what was served and what was not, by fault, by whether the
// daemon was what the fault hit, and by mode.
type Availability struct {
	rows    map[rowKey]*Row
	daemons map[int]string // of the processes
	active  map[int]bool   // faults
	window  *window
}

type rowKey struct {
	fault string
	hit   bool
	mode  string
}

// Row is a line of the table.
type Row struct {
	Requests, Served, Broken int64 // Broken: no whole answer came
	Codes                    map[string]int64
	Gap                      time.Duration // the longest in which a daemon served nothing of it
}

// window is the time of a fault, of several, or of none.
type window struct {
	kind    string
	targets []string
	began   int64
	last    map[lastKey]int64 // when a daemon served last
}

type lastKey struct{ daemon, mode string }

// The modes.
const (
	modeSnowflake = "snowflake"
	modeSegment   = "segment"
)

// NewAvailability returns an empty table.
func NewAvailability() *Availability {
	a := &Availability{rows: map[rowKey]*Row{}, daemons: map[int]string{}, active: map[int]bool{}}
	a.window = &window{kind: Calm, last: map[lastKey]int64{}}
	return a
}

func (a *Availability) add(r *history.Record) {
	switch r.Kind {
	case history.KindLife:
		a.daemons[r.Process] = r.Daemon
	case history.KindBegin:
		next := &window{kind: r.Text, targets: r.Targets, began: r.At, last: map[lastKey]int64{}}
		if len(a.active) > 0 {
			next.kind, next.targets = Several, append(slices.Clone(a.window.targets), r.Targets...)
		}
		a.active[r.Fault] = true
		a.turn(next, r.At)
	case history.KindEnded:
		if delete(a.active, r.Fault); len(a.active) == 0 {
			a.turn(&window{kind: Calm, began: r.At, last: map[lastKey]int64{}}, r.At)
		}
	case history.KindRequest:
		daemon := a.daemons[r.Process]
		if strings.HasPrefix(daemon, Extra) {
			return // it was started to be refused, or to come and go
		}
		a.count(a.window, daemon, r)
	default: // of no weight here
	}
}

// Extra begins the names of daemons that a fault starts: they are not in the table.
const Extra = "extra"

func (a *Availability) count(w *window, daemon string, r *history.Record) {
	mode := modeOf(r.Stream)
	row := a.row(w, daemon, mode)
	row.Requests++
	switch {
	case r.Served():
		row.Served++
		key := lastKey{daemon, mode}
		last, known := w.last[key]
		if !known {
			last = w.began
		}
		if known || w.began > 0 { // else the run has just begun
			row.Gap = max(row.Gap, time.Duration(r.Until()-last))
		}
		w.last[key] = r.Until()
	case r.Status == 0:
		row.Broken++
	default:
		row.Codes[r.Code]++
	}
}

// turn goes on with another window. A daemon that served nothing to the end of this
// one has a gap to there.
func (a *Availability) turn(next *window, at int64) {
	for key, last := range a.window.last {
		row := a.row(a.window, key.daemon, key.mode)
		row.Gap = max(row.Gap, time.Duration(at-last))
	}
	a.window = next
}

func (a *Availability) row(w *window, daemon, mode string) *Row {
	key := rowKey{w.kind, slices.Contains(w.targets, daemon), mode}
	row := a.rows[key]
	if row == nil {
		row = &Row{Codes: map[string]int64{}}
		a.rows[key] = row
	}
	return row
}

func modeOf(stream string) string {
	if stream == history.Snowflake {
		return modeSnowflake
	}
	return modeSegment
}

// Print writes the table, as Markdown reads it too.
func (a *Availability) Print(out io.Writer) error {
	keys := slices.SortedFunc(maps.Keys(a.rows), func(x, y rowKey) int {
		return cmp.Or(compareBool(y.fault == Calm, x.fault == Calm), compareBool(x.fault == Several, y.fault == Several), cmp.Compare(x.fault, y.fault), compareBool(y.hit, x.hit), cmp.Compare(y.mode, x.mode))
	})
	w := tabwriter.NewWriter(out, 0, 8, 1, ' ', 0)
	fmt.Fprintln(w, "| fault\t| daemons\t| mode\t| requests\t| served\t| refused, by code\t| broken off\t| longest gap\t|") //nolint:errcheck // Flush tells
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")                                            //nolint:errcheck // Flush tells
	for _, key := range keys {
		row := a.rows[key]
		daemons := "all others"
		switch {
		case key.hit:
			daemons = "hit"
		case key.fault == Calm || a.rows[rowKey{key.fault, true, key.mode}] == nil:
			daemons = "all"
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %d\t| %.3f %%\t| %s\t| %d\t| %s\t|\n", //nolint:errcheck // Flush tells
			key.fault, daemons, key.mode, row.Requests, 100*float64(row.Served)/float64(max(1, row.Requests)), codes(row.Codes), row.Broken, row.Gap.Round(time.Millisecond))
	}
	return w.Flush()
}

func codes(counts map[string]int64) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", code, counts[code]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
