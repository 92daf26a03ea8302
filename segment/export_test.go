package segment

// Alarms returns how many alarms are set: waiting requests, calls under way and
// retries have one each.
func (s *Service) Alarms() int { return s.alarms.len() }

// Waiters returns how many requests wait for a range of the tag.
func (t *Tag) Waiters() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf == nil {
		return 0
	}
	return t.buf.waiters
}

// HasBuffer reports whether the tag was ever used.
func (t *Tag) HasBuffer() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf != nil
}

// MaxFetchers is how many fetches a service has in flight at most.
const MaxFetchers = maxFetchers
