//go:build race

package server

// raceEnabled: the race detector makes sync.Pool forget things at random.
const raceEnabled = true
