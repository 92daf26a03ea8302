package sqlstore

// Waiting returns how many calls of Raise wait for a transaction.
func (m *HighWater) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// Recording tells that marks are being recorded, and none waits.
func (m *HighWater) Recording() bool { return len(m.recording) > 0 && m.Waiting() == 0 }
