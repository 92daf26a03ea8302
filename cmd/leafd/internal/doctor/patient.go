package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/inspect"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
)

// SettingsResults are the results about the settings, which were read with err.
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

// Run runs every check that the settings call for.
func (p *Patient) Run(ctx context.Context) []Result { return run(ctx, p.checks()) }

// checks are those that the settings call for, in the order in which a start meets
// them.
func (p *Patient) checks() []check {
	dir := dataDir{path: p.Cfg.DataDir, only: p.onlyMemory(), clock: p.Clock}
	snowflakes, registry := p.Cfg.Snowflake.On, len(p.Cfg.ZooKeeper.Servers) > 0
	local, database := p.Cfg.Segment.On && p.Cfg.Store(false).Local(), p.Cfg.Segment.On && !p.Cfg.Store(false).Local()
	var checks []check
	for _, c := range []struct {
		wanted bool
		name   string
		run    func(ctx context.Context, r *report)
	}{
		{true, "listeners", p.listeners},
		{true, "advertise", p.advertise},
		{true, "access", p.access},
		{true, "data-dir", dir.check},
		{true, "data-lock", p.lock},
		{p.Cfg.Segment.On, "marks", p.marks},
		{local, "segments", p.sqlite},
		{snowflakes, "record", p.record},
		{snowflakes && registry, "zookeeper", p.servers},
		{snowflakes && registry, "zk-node", p.node},
		{snowflakes && registry, "zk-rights", p.rights},
		{snowflakes && registry, "peers", p.peers},
		{snowflakes && !registry, "zookeeper", p.standalone},
		{snowflakes, "layout", p.layout},
		{!snowflakes && registry && database, "zookeeper", p.servers}, // it guards the segments
		{database, "mysql", p.mysql},                                  // behind what a start needs: a daemon goes on without
		{true, "ntp", p.ntp},
		{true, "open-files", p.openFiles},
		{true, "alarm-webhook", p.webhook},
		{true, "tls-cert", p.certificates},
	} {
		if c.wanted {
			checks = append(checks, check{c.name, p.Timeout, c.run})
		}
	}
	return checks
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

// onlyMemory tells that the data directory alone remembers what was issued.
func (p *Patient) onlyMemory() bool {
	return p.Cfg.Snowflake.On && len(p.Cfg.ZooKeeper.Servers) == 0 || p.Cfg.Segment.On && p.Cfg.Store(false).Local()
}

// cluster is the cluster that the settings name.
func (p *Patient) cluster(timeout time.Duration) inspect.Cluster {
	return inspect.Cluster{Cfg: p.Cfg, Clock: p.Clock, Timeout: timeout}
}

// wall is the time now.
func (p *Patient) wall() clock.Millis { return p.Clock.Read().Wall() }
