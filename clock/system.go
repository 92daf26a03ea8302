package clock

import (
	"context"
	"os"
	"strings"
	"time"
)

// System returns the clock of this machine.
func System() Clock { return system{} }

// origin is where every monotonic reading of this process starts.
//
//nolint:gochecknoglobals // a constant that only the clock can give
var origin = time.Now()

// MonoOf returns what the system clock's Mono was when t was taken from
// time.Now, for callers that have such a t at hand.
func MonoOf(t time.Time) time.Duration { return t.Sub(origin) }

// BootID names this run of the machine (random(4)); empty where the system doesn't tell.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

type system struct{}

func (system) Wall() (int64, time.Duration) {
	now := time.Now()
	return now.UnixNano(), now.Sub(origin)
}

func (system) Mono() time.Duration { return time.Since(origin) }

func (s system) Read() Reading {
	wallNS, mono := s.Wall()
	return Reading{WallNS: wallNS, Mono: mono, Boot: bootTime(mono)}
}

// preciseBelow is the longest sleep that is worth a timer of the kernel's. The
// Go runtime of an otherwise idle process sleeps in whole milliseconds, which
// is nothing to a second and everything to a millisecond.
const preciseBelow = 20 * time.Millisecond

func (system) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	if d < preciseBelow && sleepPrecisely(d) {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
