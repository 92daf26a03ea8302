package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/worker"
)

// rest is what one life of the daemon leaves of its ranges to the next one.
//
//  1. A rest is used by one life. rest-taken-once covers crashes, copied
//     directories and restored files.
//  2. A file system that was set back or cloned as a whole, which it can't tell, is
//     told by ZooKeeper, where the start asked it: the entry of the same instance
//     showed the life that left the rest as the last one (one-directory sets a directory
//     aside that shows another one, which makes it another instance). Where it did
//     not say so, the machine runs since then: its boot ID is the same.
//  3. Where neither says so the rest is burned: a gap.
//
// What is relied upon is that no file system is set back or cloned while the machine runs,
// with the boot ID kept, unless ZooKeeper has seen a life since; nor at any other time
// with a life in between that ZooKeeper never saw.
type rest struct {
	Boot     string         `json:"boot"`
	Owner    string         `json:"owner"`    // the life that left it; empty: without snowflake IDs
	Instance string         `json:"instance"` // of the data directory; empty: standalone
	Tags     []segment.Rest `json:"tags"`
}

// bootID is the same until the machine starts again; empty where the system doesn't tell.
func (d *daemon) bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // random(4)
	return cmp.Or(d.cfg.Tuning.BootID, strings.TrimSpace(string(id)))
}

// isOurs tells whether a life of the record now, after previous, may use it.
func (r rest) isOurs(now worker.Record, previous, boot string) bool {
	return r.Instance == now.Instance && (r.Owner != "" && r.Owner == previous || boot != "" && r.Boot == boot)
}

// asksZooKeeper tells whether the start of a life asks ZooKeeper for its worker ID.
func (d *daemon) asksZooKeeper() bool {
	return d.cfg.Snowflake.On && len(d.cfg.ZooKeeper.Servers) > 0
}

// restPatience is how long fetches wait for ZooKeeper's word on a rest, which would be burned
// by them: longer than a start takes that finds ZooKeeper away.
const restPatience = 2 * time.Second

// takeRest serves what the last life has left. now is the record that the start has ended
// with, and previous the life that ZooKeeper showed before; both empty where it has no say.
func (d *daemon) takeRest(ctx context.Context, segments *segment.Service, now worker.Record, previous string) {
	var r rest
	kept, err := d.cache.TakeRest()
	if err == nil && kept == nil {
		return
	}
	if err == nil {
		err = json.Unmarshal(kept, &r)
	}
	if err == nil && !r.isOurs(now, previous, d.bootID()) {
		err = errors.New("cannot prove that these ranges are unused")
	}
	if err == nil {
		err = segments.Adopt(ctx, r.Tags)
	}
	if err != nil {
		d.Log.Warn().Err(err).Int("tags", len(r.Tags)).Msg("what the last stop left of segments' ranges is not used")
		return
	}
	d.Log.Info().Int("tags", len(r.Tags)).Msg("tags go on with what the last stop left of their ranges")
}

// keepRest leaves what is left of the ranges to the next life. That it can't is no reason
// to fail a stop.
func (d *daemon) keepRest(segments *segment.Service) {
	r := rest{Boot: d.bootID(), Tags: segments.Keep()}
	if len(r.Tags) == 0 || d.cache == nil {
		return
	}
	if l := d.life.Load(); l != nil {
		now := l.worker.Record()
		r.Owner, r.Instance = now.Owner, now.Instance
	}
	kept, err := json.Marshal(r)
	if err == nil {
		err = d.cache.SaveRest(kept)
	}
	if err != nil {
		d.Log.Warn().Err(err).Int("tags", len(r.Tags)).Msg("what is left of segments' ranges can't be kept")
	}
}
