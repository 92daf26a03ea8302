package server

import "time"

// pagePause is how often a page asks.
const pagePause = 2 * time.Second

// workersView returns the workers as last read, and has them read again:
//
//	server.R4  An overview waits for nothing: the registry is read in the background, one
//	    read at a time (server.R1), bounded, and only while overviews are asked for.
//	server.R5  A list that is older than two of these reads take, or whose last read failed, is
//	    marked as stale: pages show it as of its time.
func (s *Server) workersView(b *Backend, self *WorkerInfo) WorkersView {
	v := WorkersView{List: []WorkerInfo{}}
	if b.Workers == nil {
		if self != nil {
			v.AsOf, v.Total, v.List = s.now(), 1, append(v.List, *self)
			if self.State == WorkerLive {
				v.Live = 1
			}
		}
		return v
	}
	go s.registered(b) //nolint:errcheck // seen has it
	seen := s.seen.Load()
	if seen == nil {
		return v
	}
	v.Error = seen.failing
	if seen.whole == nil {
		return v
	}
	every := max(workersShare, (1+listRest)*min(seen.took, mostRest)) + pagePause
	v.AsOf, v.Total = seen.asOf, len(seen.list)
	v.Stale = v.Error != "" || s.cfg.Clock.Mono()-seen.at > 2*every
	for i := range seen.list {
		if seen.list[i].State == WorkerLive {
			v.Live++
		}
	}
	v.List = append(v.List, seen.list[:min(len(seen.list), overviewWorkers)]...)
	v.LeftOut = len(seen.list) - len(v.List)
	return v
}
