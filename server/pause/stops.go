// Package stops keeps which tags an operator has stopped, in memory for the
// requests and in a file of the data folder for the next start.
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
	// ErrDamaged is returned by Open for a file that can't be believed: a tag
	// that was stopped must not run again because of it.
	ErrDamaged = errors.New("stops: the list of stopped tags is damaged")
	// ErrNotRecorded is returned when a change could not be written: the tag is
	// stopped then, but what the next start finds is not certain.
	ErrNotRecorded = errors.New("stops: the list of stopped tags could not be written")
	// ErrTooMany is returned by Stop while Max tags are stopped; nothing changes.
	ErrTooMany = errors.New("stops: too many tags are stopped")
)

// Stop is a tag that is stopped.
type Stop struct {
	Tag    string       `json:"tag"`
	Reason string       `json:"reason,omitempty"` // of the operator, at most MaxReason characters
	Since  clock.Millis `json:"since"`            // when it was first stopped
}

// Stops is the tags that are stopped. It keeps:
//
//	T1  what Stop was called for is in force from its return on, whether or not it
//	    could be written: whoever stops a tag needs it to stop.
//	T2  what Start was called for is in force only once it is on disk, the folder
//	    synced: so whenever a change fails, or the power does, the tag is stopped.
//	T3  the file is replaced whole, never changed in place, and its list bears a
//	    checksum: no tag is missing from what is read.
//	T4  a file that can't be read or believed is an error of Open, never an empty
//	    list.
//
// Get takes no lock and doesn't allocate. All methods are safe for concurrent use;
// a nil Stops has none stopped. Make one with Open.
type Stops struct {
	now atomic.Pointer[map[string]*Stop] // never changed once stored; nil: none

	mu     sync.Mutex // protects the folder, and makes changes one at a time
	folder *os.Root
	files  fileOps // immutable
}

// Open reads the list in the folder dir, which must exist and be this process's own.
// Without a file no tag is stopped. It returns ErrDamaged. The caller must Close what
// it got.
func Open(dir string) (*Stops, error) { return open(dir, realFiles()) }

func open(dir string, files fileOps) (*Stops, error) {
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("stops: opening the data folder: %w", err)
	}
	s := &Stops{folder: folder, files: files}
	list, err := read(folder)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s/%s: %w", strings.TrimSuffix(dir, "/"), fileName, err), folder.Close())
	}
	removeLeftovers(folder)
	s.publish(list)
	return s, nil
}

// Close lets the folder go. No change is possible after it.
func (s *Stops) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.folder.Close()
}

// Get returns the stop of the tag that key names; nil when it runs. It keeps nothing
// of key, and what it returns is not to be changed.
func (s *Stops) Get(key []byte) *Stop {
	if s == nil {
		return nil
	}
	tags := s.now.Load()
	if tags == nil {
		return nil
	}
	return (*tags)[string(key)]
}

// Len returns how many tags are stopped.
func (s *Stops) Len() int {
	if s == nil {
		return 0
	}
	if tags := s.now.Load(); tags != nil {
		return len(*tags)
	}
	return 0
}

// List returns the stopped tags, ordered by name; never nil.
func (s *Stops) List() []Stop {
	list := []Stop{}
	if s == nil {
		return list
	}
	if tags := s.now.Load(); tags != nil {
		for _, stop := range *tags {
			list = append(list, *stop)
		}
	}
	sortList(list)
	return list
}

// Stop stops a tag, at the time now, or gives one that is stopped another reason,
// unless that is empty, and returns the stop in force. With ErrNotRecorded it is in force all the same (T1);
// with ErrTooMany it is not.
func (s *Stops) Stop(tag, reason string, now clock.Millis) (Stop, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := Stop{Tag: tag, Reason: reason, Since: now}
	tags := s.copy()
	if old := tags[tag]; old != nil {
		stop.Since = old.Since
		if reason == "" {
			stop.Reason = old.Reason
		}
	} else if len(tags) >= Max {
		return Stop{}, fmt.Errorf("%w: %d; start some of them", ErrTooMany, Max)
	}
	tags[tag] = &stop
	s.now.Store(&tags) // T1
	return stop, s.write(tags)
}

// Start lets a tag run again, and tells whether it was stopped. With ErrNotRecorded
// it is stopped still (T2).
func (s *Stops) Start(tag string) (was bool, err error) {
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
	s.publish(slices.Collect(maps.Values(tags))) // T2
	return true, nil
}

// copy returns a map of the stops that may be changed.
func (s *Stops) copy() map[string]*Stop {
	if tags := s.now.Load(); tags != nil {
		return maps.Clone(*tags)
	}
	return make(map[string]*Stop)
}

// publish puts list in force. None at all costs a request no look into a map.
func (s *Stops) publish(list []*Stop) {
	if len(list) == 0 {
		s.now.Store(nil)
		return
	}
	tags := make(map[string]*Stop, len(list))
	for _, stop := range list {
		tags[stop.Tag] = stop
	}
	s.now.Store(&tags)
}

func sortList(list []Stop) {
	slices.SortFunc(list, func(a, b Stop) int { return strings.Compare(a.Tag, b.Tag) })
}
