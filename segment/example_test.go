package segment_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// A program keeps Run going for as long as it wants IDs. Here the table and the
// marks are in memory; package sqlstore has them on MySQL and SQLite.
func Example() {
	store := segmenttest.NewStore()
	store.Set("order", 1, 2000) // biz_tag, max_id, step
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater()})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- svc.Run(ctx) }()
	for !svc.Loaded() {
		time.Sleep(time.Millisecond)
	}

	order, err := svc.Lookup([]byte("order"))
	if err != nil {
		log.Fatal(err)
	}
	id, err := order.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)

	cancel()
	fmt.Println(<-stopped)
	// Output:
	// 1
	// <nil>
}

// A batch may be larger than a range: it waits for as many as it needs.
func ExampleTag_NextN() {
	store := segmenttest.NewStore()
	store.Set("order", 100, 3)
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater()})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- svc.Run(ctx) }()
	for !svc.Loaded() {
		time.Sleep(time.Millisecond)
	}

	order, err := svc.Lookup([]byte("order"))
	if err != nil {
		log.Fatal(err)
	}
	ids := make([]int64, 10)
	if err := order.NextN(ctx, ids); err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)

	cancel()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output:
	// [100 101 102 103 104 105 106 107 108 109]
}

// A caller that counts by itself takes a range of numbers instead of a list.
func ExampleTag_NextRanges() {
	store := segmenttest.NewStore()
	store.Set("order", 1, 2000)
	svc, err := segment.New(segment.Config{Store: store, HighWater: segmenttest.NewHighWater()})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- svc.Run(ctx) }()
	for !svc.Loaded() {
		time.Sleep(time.Millisecond)
	}

	order, err := svc.Lookup([]byte("order"))
	if err != nil {
		log.Fatal(err)
	}
	ranges, err := order.NextRanges(ctx, 1500, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range ranges {
		fmt.Println(r.First, r.Last)
	}

	cancel()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	// Output: 1 1500
}

// A key without a row is told apart from a service that can't say yet.
func ExampleService_Lookup() {
	svc, err := segment.New(segment.Config{Store: segmenttest.NewStore(), HighWater: segmenttest.NewHighWater()})
	if err != nil {
		log.Fatal(err)
	}
	_, err = svc.Lookup([]byte("order"))
	fmt.Println(errors.Is(err, segment.ErrUnavailable))

	if err := svc.Reload(context.Background()); err != nil {
		log.Fatal(err)
	}
	_, err = svc.Lookup([]byte("order"))
	fmt.Println(errors.Is(err, segment.ErrUnknownTag))
	// Output:
	// true
	// true
}
