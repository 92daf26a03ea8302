package main

import (
	"fmt"
	"io"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// The verdicts on a clock, for programs.
const (
	clockFine    = "fine"
	clockUnknown = "unknown" // nobody answered
	clockRefused = "refused"
)

func (c *clockCheck) word() string {
	switch {
	case c.refusal() != nil:
		return clockRefused
	case c.verdict.Answered == 0:
		return clockUnknown
	default:
		return clockFine
	}
}

// jsonClock is the comparison for programs.
type jsonClock struct {
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

func (c *clockCheck) json() jsonClock {
	j := jsonClock{
		Verdict: c.word(), ThresholdMS: inMS(c.threshold), Estimator: c.estimator,
		Asked: c.verdict.Asked, Answered: c.verdict.Answered, Peers: []jsonPeer{},
	}
	if c.verdict.Answered > 0 {
		offset := inMS(c.verdict.Offset)
		j.OffsetMS = &offset
	}
	for _, p := range c.peers {
		j.Peers = append(j.Peers, p.json())
	}
	if r := c.record; r != nil {
		j.Record = &jsonClockRecord{
			Node: r.Node, WorkerID: r.WorkerID, Timestamp: r.Timestamp, Ceiling: r.Ceiling,
			BehindMS: c.behind().Milliseconds(), WaitMS: c.wait().Milliseconds(),
		}
	}
	return j
}

func (p checkedPeer) json() jsonPeer {
	j := jsonPeer{Address: p.address, Node: p.name()}
	if p.workerID != worker.NoWorkerID {
		j.WorkerID = &p.workerID
	}
	if p.sample.Err != nil {
		j.Error = p.sample.Err.Error()
		return j
	}
	offset, rtt := inMS(p.sample.Offset), inMS(p.sample.RTT)
	j.OffsetMS, j.RTTMS = &offset, &rtt
	return j
}

// name is the peer's node: as ZooKeeper has it, else as it calls itself.
func (p checkedPeer) name() string {
	if p.node != "" {
		return p.node
	}
	return p.sample.Node
}

func (c *clockCheck) print(w io.Writer) error {
	if len(c.peers) > 0 {
		table := [][]string{{"ADDRESS", "NODE", "OFFSET", "RTT", "ERROR"}}
		for _, p := range c.peers {
			row := []string{p.address, orDash(p.name()), signed(p.sample.Offset), p.sample.RTT.Round(100 * time.Microsecond).String(), ""}
			if p.sample.Err != nil {
				row[2], row[3], row[4] = "-", "-", p.sample.Err.Error()
			}
			table = append(table, row)
		}
		if err := printTable(w, table); err != nil {
			return err
		}
	}
	for _, line := range c.lines() {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return printed(err)
		}
	}
	return nil
}

// lines are what stands under the table.
func (c *clockCheck) lines() []string {
	var lines []string
	if c.verdict.Answered > 0 {
		lines = append(lines, fmt.Sprintf("The peers' clocks are %s this one (%s of %d answers, %d asked); the threshold is %s.",
			apart(c.verdict.Offset), c.estimator, c.verdict.Answered, c.verdict.Asked, short(c.threshold)))
	}
	if r := c.record; r != nil {
		line := fmt.Sprintf("Worker %d of node %q recorded %s, ceiling %s", r.WorkerID, oneLine(r.Node), r.Timestamp, r.Ceiling)
		switch {
		case c.behind() > 0:
			line += fmt.Sprintf(": the clock is %s behind that.", c.behind())
		case c.wait() > 0:
			line += fmt.Sprintf(": a start now would wait %s; while its daemon runs that is as it should be.", c.wait())
		default:
			line += ": both have passed."
		}
		lines = append(lines, line)
	}
	switch c.word() {
	case clockRefused:
		lines = append(lines, "Verdict: refused.")
	case clockFine:
		lines = append(lines, "Verdict: fine.")
	default:
		lines = append(lines, "Verdict: unknown.")
	}
	return lines
}
