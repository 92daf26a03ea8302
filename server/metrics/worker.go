package metrics

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg/zksession"
)

// MaxPeers is how many peers have a clock_offset_seconds.
const MaxPeers = 50

// maxAddress is the longest peer address that becomes a label, in bytes: other programs
// may have written it into ZooKeeper.
const maxAddress = 256

// Where the clock is recorded: values of the label "to".
const (
	toFile      = "file"
	toZooKeeper = "zookeeper"
)

func (m *Metrics) collectState(p page) {
	if len(m.cfg.States) == 0 {
		return
	}
	current := m.cfg.States[0]
	if s := m.snowflake.Load(); s != nil {
		current = s.State()
	}
	for _, state := range m.cfg.States {
		p.flag(descWorkerState, state == current, state)
	}
}

func collectWorker(p page, w Worker) {
	r := w.Record()
	p.put(descWorkerInfo, 1, strconv.FormatInt(r.WorkerID, 10), r.Node, r.Layout, r.Cluster)
	s := w.Stats()
	p.put(descCeiling, s.UntilCeiling.Seconds())
	collectReports(p, toFile, s.File)
	if s.Registered {
		p.put(descLease, s.UntilLease.Seconds())
		p.put(descClosed, float64(s.ClosedUntil)/1000)
		collectReports(p, toZooKeeper, s.Registry)
	}
	p.put(descSteps, float64(s.StepsAhead), "ahead")
	p.put(descSteps, float64(s.StepsBack), "back")
	if s.PeersAsked {
		p.put(descPeersAge, s.PeersAge.Seconds())
	}
}

func collectReports(p page, to string, r worker.Reports) {
	p.put(descReportAge, r.Age.Seconds(), to)
	p.put(descReports, float64(r.Done), to)
	p.put(descReportFailures, float64(r.Failed), to)
}

// collectPeers shows the peers with the clocks that are farthest from ours. Where the samples
// are of a draw, others each time, those that have our time are left out: their series would
// come and go.
func collectPeers(p page, w Worker) {
	p.put(descThreshold, w.Threshold().Seconds())
	samples, verdict, _ := w.Peers()
	p.put(descPeers, float64(verdict.Answered), "yes")
	p.put(descPeers, float64(verdict.Asked-verdict.Answered), "no")
	if verdict.Answered > 0 {
		p.put(descEstimate, verdict.Offset.Seconds())
		current := w.Vote()
		for _, vote := range []clock.Vote{clock.Agree, clock.Undecided, clock.Outvoted} {
			p.flag(descVerdict, vote == current, string(vote))
		}
	}
	// The same series twice would make the whole scrape fail.
	shown := make(map[string]bool, MaxPeers)
	drawn := len(w.Record().Peers) > clock.Drawn
	for _, s := range farthest(samples) {
		if drawn && s.Offset.Abs() < w.Threshold() {
			continue
		}
		if !shown[s.Address] {
			shown[s.Address] = true
			p.put(descOffset, s.Offset.Seconds(), s.Address)
		}
	}
}

// farthest returns the samples with the largest offsets to either side. It skips those
// without an offset or with an address that can't be a label.
func farthest(samples []clock.Sample) []clock.Sample {
	first := best[clock.Sample]{n: MaxPeers, compare: func(a, b clock.Sample) int {
		return cmp.Or(cmp.Compare(b.Offset.Abs(), a.Offset.Abs()), strings.Compare(a.Address, b.Address))
	}}
	for _, s := range samples {
		if s.Err == nil && len(s.Address) <= maxAddress && utf8.ValidString(s.Address) {
			first.offer(s)
		}
	}
	return first.all
}

func collectGenerator(p page, g Generator) {
	s := g.Stats()
	p.put(descWaits, float64(s.TickWaits), "used_up")
	p.put(descWaits, float64(s.RollbackWaits), "clock_behind")
	p.put(descWaits, float64(s.CeilingWaits), "ceiling")
	p.put(descRefusals, float64(s.RefusedBackwards), "clock_backwards")
	p.put(descRefusals, float64(s.RefusedCeiling), "ceiling_reached")
	p.put(descRefusals, float64(s.RefusedExhausted), "time_exhausted")
	p.put(descRefusals, float64(s.RefusedStopped), "stopped")
	p.put(descRefusals, float64(s.GivenUp), "given_up")
}

func collectSession(p page, s zksession.Info) {
	for _, state := range zksession.States() {
		p.flag(descSession, state == s.State, string(state))
	}
	p.put(descConnects, float64(s.Connects))
	p.put(descExpiries, float64(s.Expiries))
}
