package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/leafd/leafd/internal/loadtest"
)

const (
	hotTag     = "hot"
	quietTags  = 20
	batchSize  = 100
	maxStep    = 1_000_000 // what leafd's ranges grow to
	snowflakes = ""        // the set of all snowflake IDs, beside those of the tags
	// comeback is how long a daemon may take to fetch again once the database is
	// back: between attempts it waits longer and longer.
	comeback = 10 * time.Second
)

// stream is a kind of requests, at a rate of its own.
type stream struct {
	name  string
	mode  loadtest.Mode
	keys  []string
	batch int
	share float64 // of all requests
}

// sets are the names of the sets of IDs that must differ, one for each journal.
func (s stream) sets() []string {
	if s.mode == loadtest.Snowflake {
		return []string{snowflakes}
	}
	return s.keys
}

func (s stream) clients(all int) int {
	return int(math.Ceil(s.share * float64(all)))
}

// mix is what is asked for at a rate. The hot tag gets as much as its ranges, when
// they have grown to their largest, outlast the outage with: a range is fetched when
// a tenth of the one before is used, so nine tenths are what there is for sure.
func mix(rate float64, outage time.Duration) []stream {
	bearable := 0.9 * maxStep / (outage + comeback).Seconds() // IDs a second
	hot := min(0.2, bearable/2/rate)
	hotBatches := min(0.002, bearable/2/rate/batchSize)
	list := []stream{
		{"hot tag", loadtest.Segment, []string{hotTag}, 1, hot},
		{fmt.Sprintf("%d tags", quietTags), loadtest.Segment, quiet(), 1, 0.3},
		{fmt.Sprintf("snowflake, batches of %d", batchSize), loadtest.Snowflake, []string{"soak"}, batchSize, 0.008},
		{fmt.Sprintf("hot tag, batches of %d", batchSize), loadtest.Segment, []string{hotTag}, batchSize, hotBatches},
	}
	rest := 1.0
	for _, s := range list {
		rest -= s.share
	}
	return append([]stream{{"snowflake", loadtest.Snowflake, []string{"soak"}, 1, rest}}, list...)
}

// singles are the streams of a mix that ask for one ID at a time.
func singles(all []stream) []stream {
	var list []stream
	for _, s := range all {
		if s.batch == 1 {
			list = append(list, s)
		}
	}
	return list
}

func quiet() []string {
	var list []string
	for i := range quietTags {
		list = append(list, fmt.Sprintf("quiet-%02d", i))
	}
	return list
}

// plan is what the seed decides.
type plan struct {
	steps map[string]int64 // of the tags: small, so that ranges end often
	from  time.Duration    // when the database is stopped
	kill  bool             // as by a crash, rather than in order
}

// newPlan makes a plan. The database is back before the second half begins: that is
// the one that is judged, and what comes and goes with the outage is no leak.
func newPlan(o options) plan {
	rng := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // to be repeated, not to be secret
	p := plan{steps: map[string]int64{hotTag: 100}, kill: rng.IntN(2) == 0}
	for _, tag := range quiet() {
		p.steps[tag] = 50 + rng.Int64N(150)
	}
	earliest, latest := o.duration/3, o.duration*45/100-o.longestOutage()
	p.from = earliest
	if latest > earliest {
		p.from += time.Duration(rng.Int64N(int64(latest - earliest)))
	}
	return p
}
