//go:build long

package sqlstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/mariadbtest"
	"github.com/leafd/leafd/test/storetest"
)

// TestGalera: two daemons on one node and one on another fetch from one row. Neither node sees the other's locks: the COMMIT of one
// fails, and no range is given twice.
func TestGalera(t *testing.T) {
	nodes := mariadbtest.StartGalera(t)
	execSQL(t, nodes[0].DB(t, ""), "CREATE DATABASE leaf")
	db := nodes[0].DB(t, "leaf")
	makeTable(t, db)
	var mu sync.Mutex
	var ranges []segment.Range // mu protects
	var refused, failed int    // mu protects
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	for _, node := range []*mariadbtest.Server{nodes[0], nodes[0], nodes[1]} {
		store := openMySQL(t, node.DSN("leaf")+generous)
		wg.Go(func() {
			for done := false; !done && ctx.Err() == nil; {
				r, err := storetest.Fetch(ctx, store, "leaf-segment-test", 0, 0)
				mu.Lock()
				switch {
				case err == nil:
					ranges = append(ranges, r)
				case strings.Contains(err.Error(), "the commit was not confirmed"):
					failed++
				case errors.Is(err, segment.ErrLocked):
					refused++
				}
				done = len(ranges) > 500 && failed > 20
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.NoError(t, ctx.Err(), "%d ranges, %d failed commits, %d refused", len(ranges), failed, refused)
	requireDisjoint(t, ranges)
	require.Eventually(t, func() bool { // once the node has applied what the other one has committed
		return maxIDOf(t, db, "leaf-segment-test") >= ranges[len(ranges)-1].Hi
	}, patience, 10*time.Millisecond)
	t.Logf("%d ranges, %d failed commits, %d refused", len(ranges), failed, refused)
}
