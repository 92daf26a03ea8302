package cli

import (
	"cmp"
	"io"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server"
)

// ClockJSON is the comparison for programs.
type ClockJSON struct {
	Verdict   string               `json:"verdict"`
	Offset    *server.Milliseconds `json:"offset_ms,omitempty"`
	Threshold server.Milliseconds  `json:"threshold_ms"`
	Estimator clock.Estimator      `json:"estimator"`
	Asked     int                  `json:"asked"`
	Answered  int                  `json:"answered"`
	Peers     []jsonPeer           `json:"peers"`
}

type jsonPeer struct {
	server.PeerClock
	WorkerID *int64 `json:"worker_id,omitempty"`
}

func clockJSON(c *inspect.ClockCheck) ClockJSON {
	j := ClockJSON{
		Verdict: c.Word(), Threshold: server.Milliseconds(c.Threshold), Estimator: c.Estimator,
		Asked: c.Verdict.Asked, Answered: c.Verdict.Answered, Peers: []jsonPeer{},
	}
	if c.Verdict.Answered > 0 {
		j.Offset = new(server.Milliseconds(c.Verdict.Offset))
	}
	for _, p := range c.Peers {
		j.Peers = append(j.Peers, jsonPeer{server.PeerClockOf(p.Sample), p.WorkerID})
	}
	return j
}

func printClock(w io.Writer, c *inspect.ClockCheck) error {
	if len(c.Peers) > 0 {
		rows := [][]string{{"ADDRESS", "NODE", "OFFSET", "RTT", "ERROR"}}
		for _, p := range c.Peers {
			row := []string{p.Address, cmp.Or(p.Sample.Node, "-"), inspect.FormatSigned(p.Sample.Offset), p.Sample.RTT.Round(100 * time.Microsecond).String(), ""}
			if p.Sample.Err != nil {
				row[2], row[3], row[4] = "-", "-", p.Sample.Err.Error()
			}
			rows = append(rows, row)
		}
		if err := printTable(w, rows); err != nil {
			return err
		}
	}
	if c.Verdict.Answered > 0 {
		err := sentence("The peers' clocks are %s this one (%s of %d answers, %d asked); the threshold is %s.",
			inspect.FormatOffset(c.Verdict.Offset), c.Estimator, c.Verdict.Answered, c.Verdict.Asked, settings.Short(c.Threshold))(w)
		if err != nil {
			return err
		}
	}
	return sentence("Verdict: %s.", c.Word())(w)
}
