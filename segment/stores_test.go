package segment_test

import (
	"context"
	"strconv"

	"github.com/leafd/leafd/segment"
)

// Each fails after some rows.
func (s *brokenPass) Each(ctx context.Context, last segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	rows := 0
	return s.Store.Each(ctx, last, func(tag []byte, maxID, step int64) error {
		if rows++; s.on && rows > s.after {
			return errDown
		}
		return fn(tag, maxID, step)
	})
}

// fixedRows is a table with a pass that allocates nothing per row.
type fixedRows struct{ n int }

func (s *fixedRows) Fetch(context.Context, string, int64, int64) (segment.Range, error) {
	return segment.Range{}, errDown
}

func (s *fixedRows) FetchGuarded(context.Context, string, int64, segment.Dispose) (segment.Range, error) {
	return segment.Range{}, errDown
}

func (s *fixedRows) Find(context.Context, []string, func(tag []byte, maxID, step int64) error) error {
	return nil
}

func (s *fixedRows) Each(_ context.Context, _ segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	var name []byte
	for i := range s.n {
		name = strconv.AppendInt(append(name[:0], "department.product.tag-"...), int64(i), 10)
		if err := fn(name, int64(i), 100); err != nil {
			return segment.View{}, err
		}
	}
	return segment.View{Whole: true}, nil
}

func (s *fixedRows) Close() error { return nil }

// lyingStore returns what it is told to, regardless of floor.
type lyingStore struct {
	segment.Store
	give segment.Range
}

func (s *lyingStore) Fetch(context.Context, string, int64, int64) (segment.Range, error) {
	return s.give, nil
}
