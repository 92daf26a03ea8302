package main

import (
	"time"

	"github.com/leafd/leafd/test/cachetest"
)

// longSession is a session's time-out beyond the one that a root has to begin with.
const longSession = 8 * time.Second

// young tries starts in a cluster that was just made, and restarts.
func (r *rig) young(n int) []row {
	r.t.Helper()
	s, on := r.cluster(n), caches(n)
	fresh, all := r.together("fresh root", s, on, startBound)
	r.stop(all)
	again, all := r.together("restarts", s, on, startBound)
	r.stop(all)

	s = r.cluster(n)
	s.session = longSession // one raises the root's; the claims of all others meet another root then
	raised, all := r.together("fresh root, session raised", s, caches(n), startBound)
	r.stop(all)
	return []row{fresh, again, raised}
}

// starts tries them where worker IDs were given out before, and claims settle.
func (r *rig) starts(n int) (rows []row) {
	r.t.Helper()
	try := func(step string, s settings, on []*cachetest.Mem, bound int64) {
		got, all := r.together(step, s, on, bound)
		r.stop(all)
		rows = append(rows, got)
	}
	s := r.settling(n)
	s.releases = true
	r.note("%d worker IDs are released", n)
	r.stop(r.started(s, n))
	if hints := len(r.children(s.root + "/leaf_released")); hints != n {
		r.t.Fatalf("%d hints of released worker IDs: want %d", hints, n)
	}
	on := caches(n)
	try("released worker IDs", s, on, startBound)
	try("the same directories", s, on, startBound)

	s = r.settling(n)
	r.fillEnded(s)
	try("all pieces ended", s, caches(n), 0)

	s = r.settling(n)
	r.fillEnded(s)
	r.empty(s)
	try("no entry, counter at its end", s, caches(n), 0)
	return rows
}
