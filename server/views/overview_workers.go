package views

// workersView returns the workers as last read, and has them read again:
//
// An overview waits for nothing: the registry is read in the background, one
// read at a time, bounded, and only while overviews are asked for.
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
	go s.registered(b) //nolint:errcheck // it is kept
	seen := s.members.seen()
	v.Stale, v.Error = s.members.stale(s, seen), seen.failing
	list := seen.value
	v.AsOf, v.Total = seen.asOf, len(list)
	for i := range list {
		if list[i].State == WorkerLive {
			v.Live++
		}
	}
	v.List = append(v.List, list[:min(len(list), overviewWorkers)]...)
	v.LeftOut = len(list) - len(v.List)
	return v
}
