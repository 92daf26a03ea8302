//go:build !linux

package client

import "time"

func nap(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // less than a millisecond
