package segment_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// steps returns the changes of tag's step of which there were events.
func (r *recorder) steps(tag string) [][2]int64 {
	var steps [][2]int64
	for _, e := range r.of(segment.KindTagChanged, tag) {
		steps = append(steps, [2]int64{e.OldStep, e.NewStep})
	}
	return steps
}

func TestChangedStepIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := segmenttest.NewStore(), &recorder{}
		store.Set("unused", 7, 10)
		store.Set("order", 0, 10)
		// The limit keeps ranges at the table's step.
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Notify: rec.notify, MaxStep: 1})
		reload(t, svc)
		require.Empty(t, rec.kinds("unused"))

		// By a pass, for a tag that is not used.
		store.Set("unused", 7, 20)
		reload(t, svc)
		reload(t, svc)
		require.Equal(t, [][2]int64{{10, 20}}, rec.steps("unused"), "once")
		require.EqualValues(t, 7, rec.of(segment.KindTagChanged, "unused")[0].High)
		require.EqualValues(t, 20, status(t, svc, "unused").TableStep)

		// By a fetch, before any pass.
		store.Set("order", 0, 30)
		require.NoError(t, lookup(t, svc, "order").NextN(t.Context(), make([]int64, 10)))
		eventually(t, func() bool { return status(t, svc, "order").Next.Ready && len(rec.steps("order")) == 1 }, "both ranges")
		reload(t, svc)
		require.Equal(t, [][2]int64{{10, 30}}, rec.steps("order"), "once")

		// By a pass, for a tag in use: the next range follows.
		eventually(t, func() bool { return !status(t, svc, "order").Fetching }, "at rest")
		row, _ := store.Row("order")
		store.Set("order", row.MaxID, 500)
		reload(t, svc)
		require.Equal(t, [][2]int64{{10, 30}, {30, 500}}, rec.steps("order"))
		require.EqualValues(t, 500, status(t, svc, "order").TableStep)
		require.EqualValues(t, 500, toNextFetch(t, lookup(t, svc, "order")))

		// A step that can't be used is an event as well, and so is its repair.
		row, _ = store.Row("order")
		store.Set("order", row.MaxID, 0)
		reload(t, svc)
		store.Set("order", row.MaxID, 500)
		reload(t, svc)
		require.Equal(t, [][2]int64{{10, 30}, {30, 500}, {500, 0}, {0, 500}}, rec.steps("order"))
	})
}

// latePass shows the rows as they were when the pass began, once it is let go.
type latePass struct {
	*segmenttest.Store
	begun, proceed chan struct{}
}

func (s *latePass) Each(ctx context.Context, _ segment.View, fn func(tag []byte, maxID, step int64) error) (segment.View, error) {
	rows, err := s.List(ctx)
	if err != nil {
		return segment.View{}, err
	}
	if s.begun != nil {
		s.begun <- struct{}{}
		<-s.proceed
	}
	for _, r := range rows {
		if err := fn([]byte(r.Tag), r.MaxID, r.Step); err != nil {
			return segment.View{}, err
		}
	}
	return segment.View{Whole: true}, nil
}

// A pass that is long under way doesn't take back what a fetch has shown since.
func TestOldViewOfAStepChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, rec := &latePass{Store: segmenttest.NewStore()}, &recorder{}
		store.Set("order", 0, 10)
		svc := start(t, segment.Config{Store: store, Clock: fakeClock(), Notify: rec.notify})
		tag := lookup(t, svc, "order")
		store.begun, store.proceed = make(chan struct{}), make(chan struct{})
		reloaded := make(chan error, 1)
		go func() { reloaded <- svc.Reload(context.Background()) }()
		<-store.begun
		store.Set("order", 0, 40)
		require.NoError(t, tag.NextN(t.Context(), make([]int64, 10)))
		eventually(t, func() bool { return tag.Status().Next.Ready && len(rec.steps("order")) == 1 }, "both ranges")
		close(store.proceed)
		require.NoError(t, <-reloaded)
		require.EqualValues(t, 40, tag.Status().TableStep)
		store.begun = nil
		reload(t, svc)
		require.EqualValues(t, 40, tag.Status().TableStep)
		require.Equal(t, [][2]int64{{10, 40}}, rec.steps("order"))
	})
}

// Nor does a fetch that is long under way take back what a pass has shown since:
// the range is given up, and the one after it has the table's step.
func TestOldFetchChangesNoStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, marks, rec := segmenttest.NewStore(), segmenttest.NewHighWater(), &recorder{}
		store.Set("order", 0, 10)
		svc := start(t, segment.Config{Store: store, HighWater: marks, Clock: fakeClock(), Notify: rec.notify})
		tag := lookup(t, svc, "order")
		raising, proceed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		marks.Before(func(_ context.Context, op segmenttest.Op, _ string) error {
			if op == segmenttest.OpRaise {
				once.Do(func() { raising <- struct{}{}; <-proceed })
			}
			return nil
		})
		got := make(chan int64, 1)
		go func() {
			id, err := tag.Next(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- id
		}()
		<-raising
		row, _ := store.Row("order")
		store.Set("order", row.MaxID, 90)
		reload(t, svc)
		close(proceed)
		<-got
		eventually(t, func() bool { return tag.Status().Next.Ready || tag.Status().Current.Ready }, "a range")
		require.EqualValues(t, 90, tag.Status().TableStep)
		reload(t, svc)
		require.Equal(t, [][2]int64{{10, 90}}, rec.steps("order"))
	})
}
