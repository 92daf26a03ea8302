package segment_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// running returns a service that runs, on a table with a tag.
func running(maxID, step int64) (svc *segment.Service, stop func() error) {
	store := segmenttest.NewStore()
	store.Set("order", maxID, step)
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater(), Marks: "example"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- svc.Run(ctx) }()
	for svc.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	return svc, func() error { cancel(); return <-stopped }
}

// A program keeps Run going for as long as it wants IDs. Here the table and the
// marks are in memory; package sqlstore has them on MySQL and SQLite.
func Example() {
	svc, stop := running(1, 2000) // max_id, step
	id, err := svc.Next(context.Background(), []byte("order"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id, stop())
	// Output: 1 <nil>
}

// A caller that counts by itself takes ranges of numbers instead of a list. They may be more than
// a range of the table has: the call waits for as many as it needs.
func ExampleService_NextRanges() {
	svc, stop := running(100, 3)
	ranges, err := svc.NextRanges(context.Background(), []byte("order"), 1500, nil)
	if err != nil {
		log.Fatal(err)
	}
	first, last := ranges[0].First, ranges[len(ranges)-1].Last
	fmt.Println(first, last, stop())
	// Output: 100 1599 <nil>
}
