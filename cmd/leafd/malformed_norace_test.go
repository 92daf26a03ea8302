//go:build !race

package main

// malformedRequests is how many of them are sent.
const malformedRequests = 100_000
