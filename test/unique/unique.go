// Package unique finds IDs that came twice, exactly: it keeps a bit for each ID, in blocks
// of 512 of which one came. An hour of 25,000 snowflake IDs a second takes 400 MB.
package unique

import "sync"

// maxFirst is how many repeated IDs a Set keeps.
const maxFirst = 10

// Set has the IDs that came. It is safe for concurrent use.
type Set struct {
	mu       sync.Mutex
	blocks   map[int64]*[8]uint64 // mu protects; by the ID without its last nine bits
	ids      int64                // mu protects; that came
	repeated []int64              // mu protects; the first that had come before
}

// Take adds IDs, as a loadtest.Config's Take.
func (s *Set) Take(_ int, ids []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks == nil {
		s.blocks = map[int64]*[8]uint64{}
	}
	for _, id := range ids {
		block := s.blocks[id>>9]
		if block == nil {
			block = new([8]uint64)
			s.blocks[id>>9] = block
		}
		word, bit := &block[id>>6&7], uint64(1)<<(id&63)
		if *word&bit != 0 && len(s.repeated) < maxFirst {
			s.repeated = append(s.repeated, id)
		}
		*word |= bit
		s.ids++
	}
}

// Came returns how many IDs came, and the first that came twice, at most ten.
func (s *Set) Came() (ids int64, repeated []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids, s.repeated
}
