//go:build race

package main

// malformedRequests is fewer here: the race detector makes each ten times slower.
const malformedRequests = 20_000
