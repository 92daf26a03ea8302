// Package pause keeps the list of tags that an operator has stopped: in memory for
// the requests, and in a file of the data directory for the next start.
package pause

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/leafd/leafd/clock"
)

// Max is how many tags may be stopped at once.
const Max = 10_000

// MaxReason is the longest reason, in characters.
const MaxReason = 256

// Sentinels of this package.
var (
	// ErrDamaged is returned by Open for a file whose content can't be trusted: a
	// stopped tag must not run again because of it.
	ErrDamaged = errors.New("the list of stopped tags is damaged")
	// ErrNotRecorded is returned when a change could not be written: the tag is
	// stopped then, but what the next start finds is uncertain.
	ErrNotRecorded = errors.New("the list of stopped tags could not be written")
	// ErrTooMany is returned by Stop while Max tags are stopped; nothing changes.
	ErrTooMany = errors.New("too many tags are stopped")
)

// Entry is one stopped tag.
type Entry struct {
	Tag    string       `json:"tag"`
	Reason string       `json:"reason,omitempty"` // of the operator, at most MaxReason characters
	Since  clock.Millis `json:"since"`            // when it was first stopped
}

// List is the tags that are stopped. It keeps:
//
//	pause.T1  Stop is in force when it returns, even if it could not be written:
//	    whoever stops a tag needs it to stop.
//	pause.T2  Start is in force only once it is on disk and the directory is
//	    synced: whenever a change or the power fails, the tag stays stopped.
//	pause.T3  The file is replaced as a whole, never changed in place, and its list
//	    has a checksum: no tag is missing from what is read.
//	pause.T4  A file that can't be read or trusted is an error of Open, never an
//	    empty list.
//
// Get takes no lock and doesn't allocate. All methods are safe for concurrent use;
// a nil List has no tag stopped. Make one with Open.
type List struct {
	now atomic.Pointer[map[string]*Entry] // never changed once stored; nil: none

	mu    sync.Mutex // protects root, and serializes changes
	root  *os.Root
	files fileOps // immutable
}

// Open reads the list in the directory dir, which must exist and belong to this
// process alone. Without a file no tag is stopped. It returns ErrDamaged. The caller
// must Close the List.
func Open(dir string) (*List, error) { return open(dir, realFiles()) }

func open(dir string, files fileOps) (*List, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	s := &List{root: root, files: files}
	list, err := read(root)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s/%s: %w", strings.TrimSuffix(dir, "/"), fileName, err), root.Close())
	}
	removeLeftovers(root)
	s.publish(list)
	return s, nil
}

// Close closes the directory. No change is possible after it.
func (s *List) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.root.Close()
}

// tags returns the map in force, which must not be changed; nil when nothing is stopped.
func (s *List) tags() map[string]*Entry {
	if s == nil {
		return nil
	}
	if tags := s.now.Load(); tags != nil {
		return *tags
	}
	return nil
}

// Get returns the entry of the tag that key names; nil when it runs. It doesn't
// retain key, and its result must not be changed.
func (s *List) Get(key []byte) *Entry { return s.tags()[string(key)] }

// Len returns how many tags are stopped.
func (s *List) Len() int { return len(s.tags()) }

// All returns the stopped tags, ordered by name; never nil.
func (s *List) All() []Entry { return sorted(s.tags()) }

// Stop stops a tag, at the time now, and returns the entry in force. A tag that is
// stopped already gets the new reason, unless that is empty. With ErrNotRecorded the
// tag is stopped all the same (pause.T1); with ErrTooMany it is not.
func (s *List) Stop(tag, reason string, now clock.Millis) (Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry := Entry{Tag: tag, Reason: reason, Since: now}
	tags := s.copy()
	if old := tags[tag]; old != nil {
		entry.Since = old.Since
		if reason == "" {
			entry.Reason = old.Reason
		}
	} else if len(tags) >= Max {
		return Entry{}, fmt.Errorf("%w: %d; start some of them", ErrTooMany, Max)
	}
	tags[tag] = &entry
	s.now.Store(&tags) // pause.T1
	return entry, s.write(tags)
}

// Start lets a tag run again, and tells whether it was stopped. With ErrNotRecorded
// it is still stopped (pause.T2).
func (s *List) Start(tag string) (was bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tags := s.copy()
	if tags[tag] == nil {
		return false, nil
	}
	delete(tags, tag)
	if err := s.write(tags); err != nil {
		return true, err
	}
	s.publish(slices.Collect(maps.Values(tags))) // pause.T2
	return true, nil
}

// copy returns a map of the entries that may be changed.
func (s *List) copy() map[string]*Entry {
	if tags := s.tags(); tags != nil {
		return maps.Clone(tags)
	}
	return make(map[string]*Entry)
}

// publish puts list in force. While nothing is stopped, a request looks into no map.
func (s *List) publish(list []*Entry) {
	if len(list) == 0 {
		s.now.Store(nil)
		return
	}
	tags := make(map[string]*Entry, len(list))
	for _, entry := range list {
		tags[entry.Tag] = entry
	}
	s.now.Store(&tags)
}

// sorted returns the entries ordered by tag; never nil.
func sorted(tags map[string]*Entry) []Entry {
	list := make([]Entry, 0, len(tags))
	for _, entry := range tags {
		list = append(list, *entry)
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Tag, b.Tag) })
	return list
}
