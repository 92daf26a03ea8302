package main

import "fmt"

// kilo is a rate in thousands, for people.
func kilo(perSecond float64) string { return fmt.Sprintf("%.1f k", perSecond/1e3) }

func micros(us float64) string { return fmt.Sprintf("%.3f us", us) }

// mega is a size in megabytes, for people: 10^6 bytes, the stricter of the two
// readings of a limit.
func mega(bytes float64) string { return fmt.Sprintf("%.1f MB", bytes/1e6) }
