package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
)

// printBench writes what a load showed, for people.
func printBench(w io.Writer, cfg loadtest.Config, r *loadtest.Result) error {
	tables := [][][]string{benchRows(cfg, r), latencyRows(cfg, r)}
	if len(r.Targets) > 1 {
		rows := [][]string{{"DAEMON", "REQUESTS", "ANSWERED", "FAILED", "IDS"}}
		for _, t := range r.Targets {
			rows = append(rows, []string{t.URL, Decimal(t.Sent), Decimal(t.Answered), Decimal(t.Failed), Decimal(t.IDs)})
		}
		tables = append(tables, rows)
	}
	if len(r.Failures) > 0 {
		rows := [][]string{{"FAILED", "STATUS", "CODE", "FOR EXAMPLE"}}
		for _, f := range r.Failures {
			rows = append(rows, []string{Decimal(f.Count), statusText(f.Status), cmp.Or(f.Code, "-"), cmp.Or(f.Example, "-")})
		}
		tables = append(tables, rows)
	}
	tables = append(tables, faultRows("DID NOT GROW", r.NotGrowing, r.FirstNotGrowing), faultRows("WRONG ANSWERS", r.Wrong, r.FirstWrong), repeatedRows(r))
	printedOne := false
	for _, rows := range tables {
		if len(rows) == 0 {
			continue
		}
		if printedOne {
			if _, err := fmt.Fprintln(w); err != nil {
				return printed(err)
			}
		}
		if err := printTable(w, rows); err != nil {
			return err
		}
		printedOne = true
	}
	return nil
}

// statusText is an HTTP status, or that there was no answer.
func statusText(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

func benchRows(cfg loadtest.Config, r *loadtest.Result) [][]string {
	loop := "in a closed loop"
	if cfg.Rate > 0 {
		loop = fmt.Sprintf("in an open loop of %g requests/s", cfg.Rate)
	}
	together := ""
	if cfg.Pipeline > 1 {
		together = fmt.Sprintf(" with up to %d requests together", cfg.Pipeline)
	}
	early := ""
	if r.EndedEarly {
		early = fmt.Sprintf(", ended early: %s were asked for", cfg.Duration)
	}
	c := r.Counts
	rows := [][]string{
		{"FIELD", "VALUE"},
		{"daemons", strings.Join(cfg.URLs, " ")},
		{"load", fmt.Sprintf("%s IDs of %s, %d a request, %d clients%s %s, %.1f s%s", cfg.Mode, strings.Join(cfg.Keys, " "), cfg.Batch, cfg.Clients, together, loop, r.Window.Seconds(), early)},
		{"requests", fmt.Sprintf("%d: %d answered with IDs, %d failed (%s)", c.Sent, c.Answered, c.Failed, percent(c.Failed, c.Sent))},
		{"requests/s", perSecond(c.Answered, r.Elapsed)},
		{"IDs", Decimal(c.IDs)},
		{"IDs/s", perSecond(c.IDs, r.Elapsed)},
	}
	add := func(field, format string, args ...any) {
		rows = append(rows, []string{field, fmt.Sprintf(format, args...)})
	}
	if cfg.Rate > 0 {
		if r.NotSent > 0 {
			add("rate", "MISSED by %s: of %d requests due %d were never sent, for all clients waited; the latencies are of those sent", percent(r.NotSent, r.Due), r.Due, r.NotSent)
		} else {
			add("rate", "kept: all %d requests due were sent", r.Due)
		}
	}
	if c.Unfinished > 0 {
		add("unfinished", "%d requests had no answer when the load was ended", c.Unfinished)
	}
	if c.Unknown > 0 {
		add("unknown IDs", "at most %d: their answers did not come whole, and they may have been used up", c.Unknown)
	}
	if c.Reconnected > 0 {
		add("reconnected", "%d times, after the daemon had closed an idle connection", c.Reconnected)
	}
	if cfg.Growing && cfg.Mode == loadtest.Snowflake && r.NotGrowing == 0 {
		add("order", "the IDs of each connection grew")
	}
	if cfg.Check != nil {
		add("uniqueness", "%s", uniqueText(r))
	}
	return rows
}

// perSecond is a rate for people.
func perSecond(n int64, d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(n)/d.Seconds())
}

// uniqueText is the verdict in a line.
func uniqueText(r *loadtest.Result) string {
	var ids, repeated, surplus, bytes int64
	for _, set := range r.Unique {
		ids += set.IDs
		repeated += set.Repeated
		surplus += set.Surplus
		bytes = max(bytes, set.Bytes)
	}
	switch {
	case surplus > 0:
		return fmt.Sprintf("FAILED: %d IDs came more than once, %d times too often, of %d compared", repeated, surplus, ids)
	case !r.Checked:
		return "NOT KNOWN: the check could not be made"
	default:
		return fmt.Sprintf("all %d IDs compared differ (%.1f MB of temporary files)", ids, float64(bytes)/1e6)
	}
}

func latencyRows(cfg loadtest.Config, r *loadtest.Result) [][]string {
	if r.Latency.Count == 0 {
		return nil
	}
	row := func(name string, l loadtest.Latency) []string {
		cells := []string{name}
		for _, d := range []time.Duration{l.Mean, l.P50, l.P90, l.P99, l.P999, l.P9999, l.Max} {
			cells = append(cells, latencyText(d))
		}
		return cells
	}
	rows := [][]string{{"LATENCY", "MEAN", "P50", "P90", "P99", "P99.9", "P99.99", "MAX"}}
	if cfg.Rate == 0 {
		return append(rows, row("of an answer", r.Latency))
	}
	return append(rows, row("from its turn", r.Latency), row("from sending", r.Service))
}

func faultRows(heading string, count int64, first []loadtest.Fault) [][]string {
	if count == 0 {
		return nil
	}
	rows := [][]string{{heading, "WHERE"}}
	for _, f := range first {
		rows = append(rows, []string{f.What, f.Place.String()})
	}
	if more := count - int64(len(first)); more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more", more), ""})
	}
	return rows
}

func repeatedRows(r *loadtest.Result) [][]string {
	var rows [][]string
	var more int64
	for _, set := range r.Unique {
		more += set.Repeated - int64(len(set.First))
		for _, d := range set.First {
			id := Decimal(d.ID)
			if set.Key != "" {
				id = set.Key + " " + id
			}
			rows = append(rows, []string{id, Decimal(d.Times), d.Places[0].String(), d.Places[1].String()})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more", more), "", "", ""})
	}
	return append([][]string{{"REPEATED ID", "TIMES", "FIRST", "SECOND"}}, rows...)
}
