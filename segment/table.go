package segment

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Table is a table as people change it. It keeps:
//
//	deleted-mark-stays  A high mark is for ever. Delete writes it, not below max_id and with a deletion mark, while it holds
//	    the row, and then removes the row; where the row is gone already it leaves the mark. Create begins at or above the high mark and the
//	    marks on this disk, clears the deletion mark on the version that it read, and then commits. Where others may have used
//	    more (the Guard is away; there is none, and the table is shared) the operator has to say where the tag begins, or that
//	    nothing keeps where it ended.
type Table struct {
	Admin
	Guard Guard // nil: there is none
	// Patience is how long the Guard is waited for.
	Patience time.Duration
	// Marks are those on this disk, of the store; nil: there are none here.
	Marks HighWater
	// Alone: no other daemon has this table, and so Marks know all IDs that were ever used.
	Alone bool
	// Service serves the table in this process; nil: none does.
	Service *Service
}

// writeAttempts bounds the races with daemons for a high mark.
const writeAttempts = 10

// MaxIDError is returned by Table.Create and Table.Update where IDs of the tag might repeat.
// Nothing was changed.
type MaxIDError struct {
	Least int64 // the least max_id that repeats none of the IDs that are known to be used
	Err   error // why others may have been used too; nil: the max_id that was given is below Least
}

// Error returns a text that says what to give.
func (e *MaxIDError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("max_id is below %d: IDs of the tag up to there were used already", e.Least)
	}
	return fmt.Sprintf("where the tag begins isn't known (%v): give a max_id above every ID that was ever issued of it, %d at least", e.Err, e.Least)
}

// Unwrap returns Err.
func (e *MaxIDError) Unwrap() error { return e.Err }

// errOnlyHere is why nothing but the guard could tell what other daemons have used.
var errOnlyHere = errors.New("the tag was there before, other daemons may have issued its IDs, and without ZooKeeper this is not found out")

// known is what is known of a tag beside its row.
type known struct {
	at    Opened
	high  HighMark // Version -1 where there is none
	mark  *Mark    // nil: none
	least int64    // the least max_id that repeats none of the IDs that are known to be used
	away  error    // why the guard isn't asked; nil where it was, or there is none
}

// bounded calls do with a context that ends after Patience.
func (t *Table) bounded(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.Patience)
	defer cancel()
	return do(ctx)
}

// ask finds out what is known of tag.
func (t *Table) ask(ctx context.Context, tag string) (k known, err error) {
	k.high.Version = -1
	if t.Marks != nil {
		marks, err := t.Marks.Get(ctx, []string{tag})
		if err != nil {
			return k, err
		}
		if len(marks) > 0 {
			k.mark, k.least = &marks[0], marks[0].High
		}
	}
	if t.Guard == nil {
		return k, nil
	}
	k.away = t.bounded(ctx, func(ctx context.Context) (err error) {
		if k.at, err = t.Guard.Open(ctx); err != nil {
			return err
		}
		highs, err := t.Guard.Read(ctx, k.at, []string{tag})
		if err == nil {
			k.high = highs[0]
		}
		return err
	})
	k.least = max(k.least, k.high.High)
	return k, k.high.Err
}

// write writes the high mark of tag as change has it of what is known, on the version that was read, and tries again where
// a daemon was in between; change may refuse. Without a guard it does nothing.
func (t *Table) write(ctx context.Context, tag string, k known, change func(h *HighMark) error) (err error) {
	for range writeAttempts {
		if t.Guard == nil || k.away != nil {
			return k.away
		}
		h := k.high
		if err = change(&h); err != nil {
			return err
		}
		h.Tag = tag
		err = t.bounded(ctx, func(ctx context.Context) error { return t.Guard.Write(ctx, k.at, []HighMark{h}) })
		if !errors.Is(err, ErrGuardConflict) && !errors.Is(err, ErrGuardMoved) {
			return err
		}
		if k, err = t.ask(ctx, tag); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w, each time that it was read", ErrGuardConflict)
}

// Create adds r, which begins at maxID, or where that is nil above all that is known, and returns
// the row. It returns the errors of Admin.Create, or a *MaxIDError.
func (t *Table) Create(ctx context.Context, r Row, maxID *int64) (Row, error) {
	k, err := t.ask(ctx, r.Tag)
	if err != nil {
		return r, err
	}
	unsure := k.away
	if t.Guard == nil && !t.Alone && k.mark != nil {
		unsure = errOnlyHere
	}
	if r.MaxID = max(k.least, 1); maxID != nil {
		r.MaxID, unsure = *maxID, nil
	}
	if r.MaxID >= 0 && r.MaxID < k.least || unsure != nil {
		if _, err := t.Get(ctx, r.Tag); err == nil { // a tag that is there is no question of where it begins
			return r, fmt.Errorf("%w: %q", ErrTagExists, r.Tag)
		} else if !errors.Is(err, ErrUnknownTag) {
			return r, err
		}
		return r, fmt.Errorf("creating tag %q: %w", r.Tag, &MaxIDError{max(k.least, 1), unsure})
	}
	err = t.Admin.Create(ctx, r, func() error {
		if k.away == nil { // else its range will be raised to begin above high
			err := t.write(ctx, r.Tag, k, func(h *HighMark) error {
				if h.High > r.MaxID { // another daemon was in between
					return &MaxIDError{Least: h.High}
				}
				h.High, h.Deleted = r.MaxID, false
				return nil
			})
			if err != nil {
				return fmt.Errorf("creating tag %q: %w", r.Tag, err)
			}
		}
		if k.mark != nil {
			return t.Marks.Raise(ctx, []Mark{{Tag: r.Tag, High: k.mark.High}})
		}
		return nil
	})
	if err == nil && t.Service != nil {
		t.Service.Created(r.Tag)
	}
	return r, err
}

// Update changes a row, max_id upward alone, and returns it as it was. The high mark is raised with it, where the
// Guard answers. It returns the errors of Admin.Update, or a *MaxIDError for a max_id below IDs that are known to be
// used.
func (t *Table) Update(ctx context.Context, tag string, c Change) (Row, error) {
	return t.Admin.Update(ctx, tag, c, func(Row) error {
		if c.MaxID == nil {
			return nil
		}
		k, err := t.ask(ctx, tag)
		switch {
		case err != nil:
			return err
		case *c.MaxID < k.least:
			return fmt.Errorf("setting max_id of tag %q: %w", tag, &MaxIDError{Least: k.least})
		case k.away != nil:
			return nil //nolint:nilerr // raised, it repeats nothing
		}
		return t.write(ctx, tag, k, func(h *HighMark) error { h.High = max(h.High, *c.MaxID); return nil })
	})
}

// Delete removes the row of tag, and returns it; of a row that is gone already it leaves the deletion mark, and returns where
// the tag's IDs ended. It returns ErrGuardAway if the Guard does not answer, and ErrUnknownTag if nothing is known of the
// tag.
func (t *Table) Delete(ctx context.Context, tag string) (Row, error) {
	k, err := t.ask(ctx, tag) // before the row is locked
	if err = errors.Join(err, k.away); err != nil {
		return Row{}, err
	}
	mark := func(r Row) error { // in the guard and on this disk
		err := t.write(ctx, tag, k, func(h *HighMark) error { h.High, h.Deleted = max(h.High, r.MaxID, 0), true; return nil })
		if err != nil || t.Marks == nil {
			return err
		}
		return t.Marks.Raise(ctx, []Mark{{Tag: tag, High: max(r.MaxID, 0), Deleted: true}})
	}
	before, err := t.Admin.Delete(ctx, tag, mark)
	if errors.Is(err, ErrUnknownTag) && (k.high.Version >= 0 || k.mark != nil) {
		before = Row{Tag: tag, MaxID: k.least}
		err = mark(before)
	}
	if err == nil && t.Service != nil {
		t.Service.Deleted(tag)
	}
	return before, err
}
