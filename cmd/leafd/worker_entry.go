package main

import (
	"context"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/worker"
)

// The states of an entry as the commands show them: what the entry says of
// itself, and for an active one whether its daemon runs.
const (
	shownLive     = "live"
	shownActive   = "active"
	shownStale    = "stale"
	shownReleased = "released"
	shownClaiming = "claiming"
	shownDamaged  = "damaged"
)

func shownStates() []string {
	return []string{shownLive, shownActive, shownStale, shownReleased, shownClaiming, shownDamaged}
}

// workerView is an entry, looked at now.
type workerView struct {
	worker.Entry
	shown string        // one of shownStates
	age   time.Duration // since the last report; below 0 when that lies ahead of our clock
	// sample is how its clock answered; nil when it wasn't asked.
	sample *clock.Sample
}

func viewEntry(e worker.Entry, now clock.Millis) workerView {
	return workerView{Entry: e, shown: shownState(e, now), age: now.Sub(e.Timestamp)}
}

func shownState(e worker.Entry, now clock.Millis) string {
	switch {
	case e.State == worker.StateReleased:
		return shownReleased
	case e.State == worker.StateClaiming:
		return shownClaiming
	case e.State != worker.StateActive:
		return shownDamaged
	case e.Live:
		return shownLive
	case now.Sub(e.Timestamp) >= worker.ReleaseAge:
		return shownStale
	default:
		return shownActive
	}
}

// viewEntries looks at entries, and asks the live ones for their clocks, all at
// once, where asker isn't nil.
func viewEntries(ctx context.Context, entries []worker.Entry, asker worker.Asker, now clock.Millis) []workerView {
	views := make([]workerView, len(entries))
	var addresses []string
	var asked []int
	for i, e := range entries {
		views[i] = viewEntry(e, now)
		if asker != nil && e.Live && e.Address != "" {
			addresses, asked = append(addresses, e.Address), append(asked, i)
		}
	}
	if len(asked) == 0 {
		return views
	}
	for i, sample := range asker.Ask(ctx, addresses) {
		v := &views[asked[i]]
		v.sample = theirs(sample, v.Node)
	}
	return views
}

// theirs is sample as one of node's clock: another daemon at its address tells
// nothing of it. One that starts has no name yet.
func theirs(sample clock.Sample, node string) *clock.Sample {
	if sample.Err == nil && sample.Node != "" && sample.Node != node {
		sample.Err = fmt.Errorf("node %q answers there, not %q", sample.Node, node)
	}
	return &sample
}

// jsonWorker is an entry for programs. Times are in milliseconds since 1970 as
// in GET /api/worker.
type jsonWorker struct {
	WorkerID       int64        `json:"worker_id"`
	Node           string       `json:"node"`
	Address        string       `json:"address"`
	State          string       `json:"state"`
	Live           bool         `json:"live"`
	Timestamp      clock.Millis `json:"timestamp"`             // the clock last reported
	LastReport     string       `json:"last_report,omitempty"` // the same in RFC 3339, UTC
	AgeMS          *int64       `json:"age_ms,omitempty"`      // since then
	Ceiling        clock.Millis `json:"ceiling"`               // IDs may have been issued below it
	Owner          string       `json:"owner,omitempty"`
	ReclaimAfterMS int64        `json:"reclaim_after_ms,omitempty"`
	SkewMS         *float64     `json:"skew_ms,omitempty"`    // its clock, ahead of ours
	RTTMS          *float64     `json:"rtt_ms,omitempty"`     // round trip of asking
	SkewError      string       `json:"skew_error,omitempty"` // why there is no skew
}

// workerFields documents jsonWorker in the help.
const workerFields = `worker_id, node, address, state, live, timestamp (the clock last reported, milliseconds since
1970), last_report (the same as text, UTC), age_ms (since then), ceiling (milliseconds since
1970), owner (UUID of the process; none for the Java Leaf's), reclaim_after_ms, and of a live
daemon skew_ms (its clock, ahead of this machine's) with rtt_ms, or skew_error`

func (v workerView) json() jsonWorker {
	j := jsonWorker{
		WorkerID: v.WorkerID, Node: v.Node, Address: v.Address, State: v.shown, Live: v.Live,
		Timestamp: v.Timestamp, Ceiling: v.Ceiling, Owner: v.Owner, ReclaimAfterMS: v.ReclaimAfter.Milliseconds(),
	}
	if v.Timestamp > 0 {
		age := v.age.Milliseconds()
		j.LastReport, j.AgeMS = v.Timestamp.String(), &age
	}
	switch {
	case v.sample == nil:
	case v.sample.Err != nil:
		j.SkewError = v.sample.Err.Error()
	default:
		skew, rtt := inMS(v.sample.Offset), inMS(v.sample.RTT)
		j.SkewMS, j.RTTMS = &skew, &rtt
	}
	return j
}

// skew is the cell of the table.
func (v workerView) skew() string {
	switch {
	case v.sample == nil:
		return "-"
	case v.sample.Err != nil:
		return "no answer"
	default:
		return signed(v.sample.Offset)
	}
}

// inMS is d in milliseconds, to the microsecond.
func inMS(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// exact is an offset as exact as clocks in milliseconds make it.
func exact(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// signed is an offset with its sign.
func signed(d time.Duration) string {
	if d = exact(d); d >= 0 {
		return "+" + d.String()
	}
	return d.String()
}

// apart says how far a clock is off another: "8s ahead of".
func apart(d time.Duration) string {
	switch d = exact(d); {
	case d > 0:
		return d.String() + " ahead of"
	case d < 0:
		return (-d).String() + " behind"
	default:
		return "level with"
	}
}

// at is a time for people; "-" when there is none.
func at(t clock.Millis) string {
	if t <= 0 {
		return "-"
	}
	return t.Time().Format("2006-01-02 15:04:05")
}

// relative is how long ago t was, or how far ahead it lies, seen from now.
func relative(t, now clock.Millis) string {
	switch d := now.Sub(t); {
	case t <= 0:
		return "never"
	case d < 0:
		return "in " + span(-d)
	default:
		return span(d) + " ago"
	}
}

// span is a duration in the one or two units that matter.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
	}
}
