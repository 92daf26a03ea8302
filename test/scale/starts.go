package main

import "time"

// longSession is a session's time-out beyond the one that a root has to begin with.
const longSession = 8 * time.Second

// young tries starts in a cluster that was just made, and restarts.
func (r *rig) young(n int) []row {
	r.t.Helper()
	s, on := r.cluster(n), caches(n)
	fresh, all := r.together("fresh root", s, on)
	r.stop(all)
	again, all := r.together("restarts", s, on)
	r.stop(all)

	s = r.cluster(n)
	s.session = longSession // one raises the root's; the claims of all others meet another root then
	raised, all := r.together("fresh root, session raised", s, caches(n))
	r.stop(all)
	return []row{fresh, again, raised}
}

// starts tries them where worker IDs were given out before, and claims settle.
func (r *rig) starts(n int) []row {
	r.t.Helper()
	s := r.settling(n)
	s.releases = true
	r.note("%d worker IDs are released", n)
	r.stop(r.started(s, n))
	if hints := len(r.children(s.root + "/leaf_released")); hints != n {
		r.t.Fatalf("%d hints of released worker IDs: want %d", hints, n)
	}
	on := caches(n)
	released, all := r.together("released worker IDs", s, on)
	r.stop(all)
	again, all := r.together("the same directories", s, on)
	r.stop(all)
	return []row{released, again}
}
