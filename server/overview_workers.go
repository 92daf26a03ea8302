package server

import "time"

// seenWorkers are the workers as they were when the registry was last read. It is never
// changed.
type seenWorkers struct {
	list    []WorkerInfo
	read    bool          // list is there
	at      time.Duration // monotonic time of list
	failing string        // code of the last read's error
}

// workersView returns the workers as last read, and has them read again:
//
//	server.R4  An overview waits for nothing: the registry is read in the background, one
//	    read at a time (server.R1), bounded, and only while overviews are asked for.
func (s *Server) workersView(b *Backend, self *WorkerInfo) WorkersView {
	if b.Workers == nil {
		v := WorkersView{List: []WorkerInfo{}}
		if self != nil {
			var age Milliseconds
			v.Age, v.Total, v.List = &age, 1, append(v.List, *self)
			if self.State == "active" {
				v.Live = 1
			}
		}
		return v
	}
	go s.registered(b) //nolint:errcheck // seen has it
	seen := s.seen.Load()
	if seen == nil {
		return WorkersView{List: []WorkerInfo{}}
	}
	v := WorkersView{Error: seen.failing, Total: len(seen.list)}
	if seen.read {
		age := Milliseconds(s.cfg.Clock.Mono() - seen.at)
		v.Age = &age
	}
	for i := range seen.list {
		if seen.list[i].Live {
			v.Live++
		}
	}
	v.List = append([]WorkerInfo{}, seen.list[:min(len(seen.list), overviewWorkers)]...)
	v.LeftOut = len(seen.list) - len(v.List)
	return v
}
