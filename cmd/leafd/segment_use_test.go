package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/server/views"
	"github.com/leafd/leafd/test/mariadbtest"
)

// What a daemon tells of the use of its tags is what its clients got, and a step
// that is changed in the table is logged and followed.
func TestUseOfTags(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	mariadb := mariadbtest.Shared(t)
	name := mariadb.NewDatabase(t)
	db := mariadb.DB(t, name)
	javaTable(t, db)
	l := m.ready("--mysql", mariadb.DSN(name), tune("SegmentWait", "10s")) // a busy machine's range is no refusal
	top := func() []segment.Status {
		var view views.Overview
		require.NoError(t, json.Unmarshal([]byte(l.awaitStatus("/api/overview", http.StatusOK).body), &view))
		return view.Segments.List
	}
	taken := int64(0)
	take := func(n int) {
		got, err := ids(l.awaitStatus(fmt.Sprintf("/api/segment/get/b?n=%d", n), http.StatusOK).body)
		require.NoError(t, err)
		require.Len(t, got, n)
		taken += int64(n)
	}
	require.Eventually(t, func() bool {
		take(10)
		return top()[0].Rate > 0
	}, eventually, 50*time.Millisecond)
	var first segment.Status
	require.Eventually(t, func() bool { // an overview is a second old at most
		first = top()[0]
		return first.Issued == taken
	}, eventually, 50*time.Millisecond)
	require.Equal(t, "b", first.Tag)
	require.Positive(t, *first.Remaining)
	metrics := l.scrape()
	require.Contains(t, metrics, fmt.Sprintf("leafd_ids_issued_total{mode=\"segment\"} %d\n", taken))
	require.Contains(t, metrics, fmt.Sprintf("leafd_http_request_duration_seconds_count{batch=\"yes\",mode=\"segment\"} %d\n", taken/10))

	l.awaitStatus("/api/segment/get/a", http.StatusOK)
	_, err := db.ExecContext(t.Context(), "UPDATE leaf_alloc SET step = 30 WHERE biz_tag = 'a'")
	require.NoError(t, err)
	l.awaitLog(`"message":"tag changed"`, `"tag":"a"`, `"old_step":1000`, `"new_step":30`)
	require.Eventually(t, func() bool { all := top(); return len(all) == 2 && all[1].TableStep == 30 }, eventually, 50*time.Millisecond)
	require.Equal(t, 0, l.stop())
}
