package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
)

// ClockJSON is the comparison for programs.
type ClockJSON struct {
	Verdict     string           `json:"verdict"`
	OffsetMS    *float64         `json:"offset_ms,omitempty"`
	ThresholdMS float64          `json:"threshold_ms"`
	Estimator   clock.Estimator  `json:"estimator"`
	Asked       int              `json:"asked"`
	Answered    int              `json:"answered"`
	Peers       []jsonPeer       `json:"peers"`
	Record      *jsonClockRecord `json:"record,omitempty"`
}

type jsonPeer struct {
	Address  string   `json:"address"`
	Node     string   `json:"node,omitempty"`
	WorkerID *int64   `json:"worker_id,omitempty"`
	OffsetMS *float64 `json:"offset_ms,omitempty"`
	RTTMS    *float64 `json:"rtt_ms,omitempty"`
	Error    string   `json:"error,omitempty"`
}

type jsonClockRecord struct {
	Node      string       `json:"node"`
	WorkerID  int64        `json:"worker_id"`
	Timestamp clock.Millis `json:"timestamp"`
	Ceiling   clock.Millis `json:"ceiling"`
	BehindMS  int64        `json:"behind_ms"`
	WaitMS    int64        `json:"wait_ms"`
}

func clockJSON(c *inspect.ClockCheck) ClockJSON {
	j := ClockJSON{
		Verdict: c.Word(), ThresholdMS: inMS(c.Threshold), Estimator: c.Estimator,
		Asked: c.Verdict.Asked, Answered: c.Verdict.Answered, Peers: []jsonPeer{},
	}
	if c.Verdict.Answered > 0 {
		offset := inMS(c.Verdict.Offset)
		j.OffsetMS = &offset
	}
	for _, p := range c.Peers {
		j.Peers = append(j.Peers, peerJSON(p))
	}
	if r := c.Record; r != nil {
		j.Record = &jsonClockRecord{
			Node: r.Node, WorkerID: r.WorkerID, Timestamp: r.Timestamp, Ceiling: r.Ceiling,
			BehindMS: c.Behind().Milliseconds(), WaitMS: c.Wait().Milliseconds(),
		}
	}
	return j
}

func peerJSON(p inspect.CheckedPeer) jsonPeer {
	j := jsonPeer{Address: p.Address, Node: p.Name()}
	if p.WorkerID != worker.NoWorkerID {
		j.WorkerID = &p.WorkerID
	}
	if p.Sample.Err != nil {
		j.Error = p.Sample.Err.Error()
		return j
	}
	offset, rtt := inMS(p.Sample.Offset), inMS(p.Sample.RTT)
	j.OffsetMS, j.RTTMS = &offset, &rtt
	return j
}

func printClock(w io.Writer, c *inspect.ClockCheck) error {
	if len(c.Peers) > 0 {
		table := [][]string{{"ADDRESS", "NODE", "OFFSET", "RTT", "ERROR"}}
		for _, p := range c.Peers {
			row := []string{p.Address, cmp.Or(p.Name(), "-"), inspect.FormatSigned(p.Sample.Offset), p.Sample.RTT.Round(100 * time.Microsecond).String(), ""}
			if p.Sample.Err != nil {
				row[2], row[3], row[4] = "-", "-", p.Sample.Err.Error()
			}
			table = append(table, row)
		}
		if err := printTable(w, table); err != nil {
			return err
		}
	}
	for _, line := range clockLines(c) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return printed(err)
		}
	}
	return nil
}

// clockLines are what stands under the table.
func clockLines(c *inspect.ClockCheck) []string {
	var lines []string
	if c.Verdict.Answered > 0 {
		lines = append(lines, fmt.Sprintf("The peers' clocks are %s this one (%s of %d answers, %d asked); the threshold is %s.",
			inspect.FormatOffset(c.Verdict.Offset), c.Estimator, c.Verdict.Answered, c.Verdict.Asked, settings.Short(c.Threshold)))
	}
	if r := c.Record; r != nil {
		line := fmt.Sprintf("Worker %d of node %q recorded %s, ceiling %s", r.WorkerID, oneLine(r.Node), r.Timestamp, r.Ceiling)
		switch {
		case c.Behind() > 0:
			line += fmt.Sprintf(": the clock is %s behind that.", c.Behind())
		case c.Wait() > 0:
			line += fmt.Sprintf(": a start now would wait %s; while its daemon runs that is as it should be.", c.Wait())
		default:
			line += ": both have passed."
		}
		lines = append(lines, line)
	}
	return append(lines, "Verdict: "+c.Word()+".")
}
