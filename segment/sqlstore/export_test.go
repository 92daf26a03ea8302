package sqlstore

// Waiting returns how many marks wait for a transaction.
func (m *HighWater) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting)
}

// Recording tells that marks are being recorded, and none waits.
func (m *HighWater) Recording() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recording && len(m.waiting) == 0
}
