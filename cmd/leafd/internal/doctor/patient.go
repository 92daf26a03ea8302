package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// SettingsResults returns the results about the settings, which were read with err.
func SettingsResults(cfg settings.Config, err error) []Result {
	const check = "settings"
	problems := settings.Errors(nil)
	if err != nil && !errors.As(err, &problems) {
		problems = settings.Errors{err.Error()}
	}
	var results []Result
	for _, problem := range problems {
		results = append(results, Result{Check: check, Status: Fail, Found: problem, Do: "correct it; leafd config shows what each setting comes to", Err: err})
	}
	for _, warning := range cfg.Warnings {
		results = append(results, Result{Check: check, Status: Warn, Found: warning})
	}
	if len(results) == 0 {
		results = append(results, Result{Check: check, Status: OK, Found: fmt.Sprintf("all %d can be used", len(settings.All()))})
	}
	return results
}

// Patient is a daemon that may be started one day, or runs.
type Patient struct {
	Cfg     settings.Config
	Clock   clock.Clock
	Values  *settings.Values
	Timeout time.Duration
}

// Run runs every check that the settings call for, in the order in which a start meets them.
func (p *Patient) Run(ctx context.Context) []Result {
	snowflakes, registry := p.Cfg.Snowflake.On, len(p.Cfg.ZooKeeper.Servers) > 0
	local, database := p.Cfg.Segment.On && p.Cfg.Store(false).Local(), p.Cfg.Segment.On && !p.Cfg.Store(false).Local()
	dir := dataDir{path: p.Cfg.DataDir, only: snowflakes && !registry || local, clock: p.Clock}
	return run(ctx, slices.DeleteFunc([]check{
		{true, "listeners", p.Timeout, p.listeners},
		{true, "advertise", p.Timeout, p.advertise},
		{true, "access", p.Timeout, p.access},
		{true, "data-dir", p.Timeout, dir.check},
		{true, "data-lock", p.Timeout, p.lock},
		{p.Cfg.Segment.On, "marks", p.Timeout, p.marks},
		{local, "segments", p.Timeout, p.sqlite},
		{snowflakes, "record", p.Timeout, p.record},
		{snowflakes && registry, "zookeeper", p.Timeout, p.servers},
		{snowflakes && registry, "zk-node", p.Timeout, p.node},
		{snowflakes && registry, "zk-rights", p.Timeout, p.rights},
		{snowflakes && registry, "peers", p.Timeout, p.peers},
		{snowflakes && !registry, "zookeeper", p.Timeout, p.standalone},
		{snowflakes, "layout", p.Timeout, p.layout},
		{!snowflakes && registry && database, "zookeeper", p.Timeout, p.servers}, // it guards the segments
		{database, "mysql", p.Timeout, p.mysql},                                  // behind what a start needs: a daemon goes on without
		{true, "ntp", p.Timeout, p.ntp},
		{true, "open-files", p.Timeout, p.openFiles},
		{true, "alarm-webhook", p.Timeout, p.webhook},
		{true, "tls-cert", p.Timeout, p.certificates},
	}, func(c check) bool { return !c.wanted }))
}

// standalone says what nothing checks.
func (p *Patient) standalone(_ context.Context, r *report) {
	r.OK("zookeeper", "standalone, worker ID %d: nothing checks that no other daemon has it", p.Cfg.Snowflake.WorkerID)
}

// access reports what a daemon trusts and others may write.
func (p *Patient) access(_ context.Context, r *report) {
	const check = "access"
	exposed := p.Cfg.Exposed()
	for _, e := range exposed {
		r.Warn(check, e.Found, e.Do)
	}
	if len(exposed) == 0 {
		r.OK(check, "nothing that a daemon trusts is open to others")
	}
}

// cluster returns the cluster that the settings name.
func (p *Patient) cluster(timeout time.Duration) inspect.Cluster {
	return inspect.Cluster{Cfg: p.Cfg, Clock: p.Clock, Timeout: timeout}
}

// wall returns the time now.
func (p *Patient) wall() clock.Millis { return p.Clock.Read().Wall() }
