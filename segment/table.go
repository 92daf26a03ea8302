package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Table is a table as people change it: what it creates, and deletes, keeps deleted-mark-stays. Its zero
// value but for Admin knows of no ID that was ever used.
type Table struct {
	Admin
	Guard Guard // nil: there is none
	// Patience is how long the Guard is waited for.
	Patience time.Duration
	// Marks gets what is deleted; nil: nothing is kept here.
	Marks HighWater
	// Known returns what is known here of the IDs of tag: none at or above high was used. With
	// all it is everything, unless there is a Guard. It may be nil.
	Known func(ctx context.Context, tag string) (high int64, all bool, err error)
	// Deleted is called after a row was deleted, with its max_id. It may be nil.
	Deleted func(tag string, high int64)
}

// MaxIDError is returned by Table.Create and Table.SetMaxID where IDs of the tag might repeat.
// Nothing was changed.
type MaxIDError struct {
	Least int64 // the least max_id that repeats none of the IDs that are known to be used
	Err   error // why others may have been used too; nil: the max_id that was given is below Least
}

// Error says what to give.
func (e *MaxIDError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("max_id is below %d: IDs of the tag up to there were used already", e.Least)
	}
	return fmt.Sprintf("where the tag begins isn't known (%v): give a max_id above every ID that was ever issued of it, %d at least", e.Err, e.Least)
}

// Unwrap returns Err.
func (e *MaxIDError) Unwrap() error { return e.Err }

// errOnlyHere is why nothing but the guard could tell what other daemons have used.
var errOnlyHere = errors.New("other daemons may have issued its IDs, and without ZooKeeper this is not found out")

// Create adds r, which begins at maxID, or where that is nil above all that is known, and
// returns the row. Beside the errors of Admin.Create, a *MaxIDError.
func (t *Table) Create(ctx context.Context, r Row, maxID *int64) (Row, error) {
	least, unsure, err := t.least(ctx, r.Tag)
	if err != nil {
		return r, err
	}
	if r.MaxID = max(least, 1); maxID != nil {
		r.MaxID, unsure = *maxID, nil
	}
	if r.MaxID < least && r.MaxID >= 0 || unsure != nil {
		rows, err := t.List(ctx) // a tag that is there is no question of where it begins
		for _, row := range rows {
			if row.Tag == r.Tag {
				return r, fmt.Errorf("%w: %q", ErrTagExists, r.Tag)
			}
		}
		if err != nil {
			return r, err
		}
		return r, fmt.Errorf("creating tag %q: %w", r.Tag, &MaxIDError{max(least, 1), unsure})
	}
	return r, t.Admin.Create(ctx, r)
}

// least returns the least max_id that repeats no ID that is known to be used; 0 only where the
// operator may say so. unsure is why others may have been used.
func (t *Table) least(ctx context.Context, tag string) (least int64, unsure, err error) {
	all := true
	if t.Known != nil {
		if least, all, err = t.Known(ctx, tag); err != nil {
			return 0, nil, err
		}
	}
	if t.Guard != nil {
		m, err := t.ask(ctx, tag)
		return max(least, m.High), err, nil
	}
	if !all {
		unsure = errOnlyHere
	}
	return least, unsure, nil
}

// ask returns the high mark of tag.
func (t *Table) ask(ctx context.Context, tag string) (HighMark, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	opened, err := t.Guard.Open(ctx)
	if err == nil && opened.Wait > 0 {
		err = fmt.Errorf("%w: it has lost high marks, and waits %s for the daemons that know them", ErrGuardAway, opened.Wait)
	}
	if err != nil {
		return HighMark{}, err
	}
	return t.Guard.Get(ctx, opened.Conn, tag)
}

// ErrLowersMaxID is returned by Table.SetMaxID for a max_id below the row's, of which nothing
// tells that its IDs were not used.
var ErrLowersMaxID = errors.New("segment: max_id would be lowered")

// SetMaxID sets where the next range of tag begins, and returns the row as it was. A *MaxIDError
// where that is below IDs that are known to be used, ErrLowersMaxID where it is below the row's.
// With force, the operator's word that no ID at or above maxID was used, only the marks kept
// here count: the high mark in the Guard is set back before the row (moved-forward takes the
// greater of the two, so that a failure between them repeats nothing).
func (t *Table) SetMaxID(ctx context.Context, tag string, maxID int64, force bool) (Row, error) {
	return t.Admin.SetMaxID(ctx, tag, maxID, func(r Row) error {
		known := int64(0)
		if t.Known != nil {
			var err error
			if known, _, err = t.Known(ctx, tag); err != nil {
				return err
			}
		}
		if maxID < known {
			return fmt.Errorf("setting max_id of tag %q: %w", tag, &MaxIDError{Least: known})
		}
		if t.Guard == nil {
			return unlessForced(force, maxID, 0, r)
		}
		for {
			m, err := t.ask(ctx, tag)
			if err != nil && maxID >= r.MaxID { // the guard keeps what is used from being used again
				return nil // raised, it repeats nothing
			}
			if err != nil || m.High <= maxID || !force {
				return cmp.Or(err, unlessForced(force, maxID, m.High, r))
			}
			if _, err = t.Guard.Put(ctx, tag, m, maxID, "set back"); !errors.Is(err, ErrGuardConflict) {
				return err
			}
		}
	})
}

// unlessForced returns why max_id of r can't become maxID where IDs below high were used.
func unlessForced(force bool, maxID, high int64, r Row) error {
	switch {
	case force:
		return nil
	case maxID < high:
		return fmt.Errorf("setting max_id of tag %q: %w", r.Tag, &MaxIDError{Least: high})
	case maxID < r.MaxID:
		return fmt.Errorf("%w: of tag %q from %d to %d", ErrLowersMaxID, r.Tag, r.MaxID, maxID)
	}
	return nil
}

// Delete removes the row of tag, and returns it. Its max_id is kept where Create looks for it
// before the row goes; with a Guard, ErrGuardAway where that is not to be had.
func (t *Table) Delete(ctx context.Context, tag string) (Row, error) {
	if t.Guard != nil {
		if _, err := t.ask(ctx, tag); err != nil { // before the row is locked
			return Row{}, err
		}
	}
	before, err := t.Admin.Delete(ctx, tag, func(r Row) error { return t.keep(ctx, r) })
	if err == nil && t.Deleted != nil {
		t.Deleted(tag, before.MaxID)
	}
	return before, err
}

// keep records the max_id of a row that is locked.
func (t *Table) keep(ctx context.Context, r Row) error {
	if r.MaxID <= 0 { // none was ever used, or it is no number
		return nil
	}
	if t.Marks != nil {
		if err := t.Marks.Raise(ctx, r.Tag, r.MaxID); err != nil {
			return err
		}
	}
	for t.Guard != nil {
		m, err := t.ask(ctx, r.Tag)
		if err != nil || m.High >= r.MaxID {
			return err
		}
		if _, err = t.Guard.Put(ctx, r.Tag, m, r.MaxID, "deleted"); !errors.Is(err, ErrGuardConflict) {
			return err
		}
	}
	return nil
}

// Known returns the high of Table.Known for a service that runs. Other daemons of a shared table may
// have used more, also of a tag that this one has deleted: another may have made it again since.
func (s *Service) Known(tag string) (high int64, err error) {
	if err := s.unread(); err != nil {
		return 0, err
	}
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	if t := s.tag([]byte(tag)); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.floorLocked(), nil
	}
	f := s.former[tag]
	return max(f.high, f.marked), nil
}

// Deleted is Table.Deleted for a service that runs.
func (s *Service) Deleted(tag string, high int64) {
	s.tagsMu.Lock()
	defer s.tagsMu.Unlock()
	if t := s.tag([]byte(tag)); t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.base = max(t.base, high)
		return
	}
	f := s.former[tag]
	f.high = max(f.high, high)
	s.former[tag] = f
}
