package main

import "github.com/leafd/leafd/test/bench/internal/figures"

type genPart struct {
	heading string
	ratio   string // what the last column is, "" where there is none
	lines   []genLine
}

// genTables is what is printed of the benchmarks in bench/gen.
func genTables() []genPart {
	none := figures.Target{}
	parts := []genPart{}
	for _, way := range []struct {
		name, heading string
		target        figures.Target
	}{
		{"Alone", "Generators, milliseconds not used up, one goroutine", figures.AtMost(40)},
		{"Two", "The same, two goroutines", none},
		{"Sixteen", "The same, sixteen goroutines", none},
	} {
		leafd := "Free/leafd/" + way.name
		part := genPart{heading: way.heading, ratio: "x leafd", lines: []genLine{
			{"leafd Next", leafd, way.target, leafd, none},
		}}
		for _, peer := range []string{"bwmarrin", "xid", "ulid", "uuid7"} {
			part.lines = append(part.lines, genLine{peer, "Free/" + peer + "/" + way.name, none, leafd, none})
		}
		if way.name == "Alone" {
			part.lines = append(part.lines,
				genLine{"sonyflake v1, bursts of 200", "Sonyflake", none, leafd, none},
				genLine{"leafd NextN of 1000", "Batch/free", none, leafd, none})
		}
		part.lines = append(part.lines, genLine{"an atomic add", "Free/atomic/" + way.name, none, leafd, none})
		parts = append(parts, part)
	}
	parts = append(parts, genPart{"Generators, 4096 IDs of every millisecond used up (the limit is 244.1 ns an ID)", "", []genLine{
		{"leafd Next", "UsedUp/leafd", figures.AtMost(244.1 * 1.01), "", none},
		{"leafd Next, sixteen goroutines", "UsedUp/leafd/Sixteen", figures.AtMost(244.1 * 1.01), "", none},
		{"leafd NextN of 1000", "Batch/usedup", figures.AtMost(244.1 * 1.01), "", none},
		{"bwmarrin", "UsedUp/bwmarrin", none, "", none},
	}})
	const add = "Segment/atomic/"
	return append(parts, genPart{"Segment Next against an atomic add", "x atomic add", []genLine{
		{"one goroutine", "Segment/next/Alone", none, add + "Alone", figures.AtMost(2)},
		{"two goroutines", "Segment/next/Two", none, add + "Two", figures.AtMost(2)},
		{"sixteen goroutines", "Segment/next/Sixteen", none, add + "Sixteen", figures.AtMost(2)},
		{"NextN of 1000", "Segment/batch", none, add + "Alone", none},
	}})
}
