package segment

// Absent returns how many names are remembered that have no row.
func Absent(s *Service) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lookups.absent)
}

// Span is a range being handed out.
type Span = span

// NewSpan returns r as a span.
func NewSpan(r Range) *Span { return newSpan(r.Lo, r.Hi) }

// Take takes up to n IDs, and Close ends the span as the deletion of its tag does.
func (s *span) Take(n int) (first int64, got int) {
	first, got, _ = s.run(n)
	return first, got
}

// Close is close.
func (s *span) Close() int64 { return s.close() }
