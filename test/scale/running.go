package main

import (
	"fmt"
	"slices"
	"time"
)

// running tries n daemons that run: what it costs each that another one comes, or goes, and a
// restart of ZooKeeper.
func (r *rig) running(n int, report, round time.Duration) []row {
	r.t.Helper()
	s := r.cluster(n + 1)
	s.report, s.round = report, round
	all := r.started(s, n)
	defer func() { r.stop(all) }()
	r.rounds(all)
	var rows []row
	cost := func(step string, bound int64, do func()) {
		r.note("%s, beside %d", step, n)
		before := map[*daemon]int64{}
		for _, d := range all {
			before[d] = d.session.beside.Load()
		}
		do()
		got := row{step: step, n: n, bound: bound}
		got.median, got.most = spread(all, func(d *daemon) int64 { return d.session.beside.Load() - before[d] })
		rows = append(rows, got)
	}
	var another []*daemon
	cost("one daemon more", changeBound, func() {
		another = r.started(s, 1)
		r.rounds(all)
	})
	cost("one daemon less", changeBound, func() {
		r.stop(another)
		r.rounds(all)
	})
	var killed, serves time.Time
	cost("ZooKeeper restarted", 0, func() {
		r.server.Kill(r.t)
		killed = time.Now()
		r.server.Restart(r.t)
		serves = time.Now()
		r.reports(all)
	})
	back := &rows[len(rows)-1]
	back.took = time.Since(killed)
	back.says = fmt.Sprintf("all have reported %.1f s after it served again", time.Since(serves).Seconds())
	for _, d := range all {
		select {
		case err := <-d.ended:
			d.ended <- err // stop waits for it
			r.t.Errorf("a daemon ended: %v", err)
		default:
		}
	}
	return rows
}

// rounds waits until each of all has looked at the live set twice: the first look may have
// begun before.
func (r *rig) rounds(all []*daemon) {
	r.t.Helper()
	r.times(2, "looks at the live set", all, func(d *daemon) int64 { return d.session.rounds.Load() })
}

// reports waits until each of all has reported.
func (r *rig) reports(all []*daemon) {
	r.t.Helper()
	r.times(1, "reports", all, func(d *daemon) int64 { return d.registry.reports.Load() })
}

// times waits until count has gone up by n for each of all.
func (r *rig) times(n int64, what string, all []*daemon, count func(*daemon) int64) {
	r.t.Helper()
	before := map[*daemon]int64{}
	for _, d := range all {
		before[d] = count(d)
	}
	r.until(what, func() bool {
		return !slices.ContainsFunc(all, func(d *daemon) bool { return count(d) < before[d]+n })
	})
}
