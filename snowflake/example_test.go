package snowflake_test

import (
	"context"
	"fmt"
	"log"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/snowflake"
)

// The fence here never refuses; a real one is raised only after the new ceiling
// was recorded durably, as package worker does it.
func ExampleGenerator() {
	ids, err := snowflake.New(snowflake.Config{
		Layout: snowflake.DefaultLayout(),
		Worker: 7,
		Clock:  clock.System(),
		Fence:  openFence{},
		Jitter: snowflake.DefaultJitter,
	})
	if err != nil {
		log.Fatal(err)
	}
	id, err := ids.Next(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	parts, err := snowflake.DefaultLayout().Decode(id)
	if err != nil {
		log.Fatal(err)
	}
	batch := make([]int64, 1000)
	if err := ids.NextN(context.Background(), batch); err != nil {
		log.Fatal(err)
	}
	fmt.Println("worker", parts.Worker, "growing", batch[0] > id, batch[999] > batch[0])
	// Output: worker 7 growing true true
}

// The bounds of a range scan over everything issued in one millisecond.
func ExampleLayout_Range() {
	at := snowflake.DefaultEpoch + 1
	first, last, err := snowflake.DefaultLayout().Range(at)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(first, last)
	// Output: 4194304 8388607
}
