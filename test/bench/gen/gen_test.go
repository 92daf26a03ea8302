// Package gen compares leafd's generators with that of another library and with the
// least that any counter costs, an atomic add. Every benchmark reports
// ns/op as nanoseconds an ID, and how many CPUs the process kept busy.
//
// What the benchmarks of one table do alike, so that the comparison is fair:
//
//   - "Alone" is one goroutine, "Two" and "Sixteen" are that many at once.
//   - "Free" never uses a generator's sequence up: both get 20 bits of it, a million IDs a
//     millisecond; the default of 12 bits lasts for a sixth of a millisecond at this speed, and
//     what is measured then is the wait.
//   - "UsedUp" is the layout with 12 bits of sequence and one goroutine that
//     asks for all it can get: 244.1 ns an ID is the limit, and the CPUs busy
//     tell which ones sleep and which spin.
//   - Nothing is done with an ID but to keep the compiler from dropping it.
package gen

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// sink keeps the compiler from dropping an ID that is never read.
var sink int64

// cpuTime is what the process used so far, user and system.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// alone times next in one goroutine.
func alone(b *testing.B, next func() int64) {
	b.Helper()
	cpu, start := cpuTime(b), time.Now()
	for b.Loop() {
		sink = next()
	}
	reportCPUs(b, cpu, start)
}

// together times next in n goroutines at once; n is a multiple of GOMAXPROCS,
// which make bench-gen sets to 2.
func together(b *testing.B, n int, next func() int64) {
	b.Helper()
	b.SetParallelism(max(1, n/runtime.GOMAXPROCS(0)))
	cpu, start := cpuTime(b), time.Now()
	b.RunParallel(func(pb *testing.PB) {
		var last int64
		for pb.Next() {
			last = next()
		}
		runtime.KeepAlive(last)
	})
	reportCPUs(b, cpu, start)
}

// eachWay runs next alone, in two and in sixteen goroutines, as name/Alone,
// name/Two and name/Sixteen.
func eachWay(b *testing.B, name string, next func() int64) {
	b.Helper()
	b.Run(name+"/Alone", func(b *testing.B) { alone(b, next) })
	b.Run(name+"/Two", func(b *testing.B) { together(b, 2, next) })
	b.Run(name+"/Sixteen", func(b *testing.B) { together(b, 16, next) })
}

func reportCPUs(b *testing.B, cpuBefore time.Duration, start time.Time) {
	b.Helper()
	b.ReportMetric(float64(cpuTime(b)-cpuBefore)/float64(time.Since(start)), "cpus")
}
