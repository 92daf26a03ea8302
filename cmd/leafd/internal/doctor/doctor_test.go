package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/worker"
)

func TestResultsKeepTheOrderOfTheChecks(t *testing.T) {
	second := make(chan struct{})
	results := run(t.Context(), []check{
		{name: "a", limit: time.Minute, run: func(_ context.Context, r *report) {
			<-second // they run side by side
			r.OK("a", "%d", 1)
			r.Warn("b", "odd", "fix it")
		}},
		{name: "c", limit: time.Minute, run: func(_ context.Context, r *report) {
			r.Fail("c", context.Canceled, "")
			close(second)
		}},
		{name: "none", limit: time.Minute, run: func(context.Context, *report) {}},
	})
	require.Equal(t, []Result{
		{Check: "a", Status: OK, Found: "1"},
		{Check: "b", Status: Warn, Found: "odd", Do: "fix it"},
		{Check: "c", Status: Fail, Found: "context canceled", Err: context.Canceled},
	}, results)
}

func TestCheckThatHangs(t *testing.T) {
	dead := make(chan struct{})
	left := make(chan struct{})
	results := run(t.Context(), []check{
		{name: "deaf", limit: 10 * time.Millisecond, run: func(_ context.Context, r *report) {
			defer close(left)
			r.OK("deaf-part", "this much was seen")
			<-dead
			r.OK("deaf-part", "too late")
		}},
		{name: "obedient", limit: 10 * time.Millisecond, run: func(ctx context.Context, r *report) {
			<-ctx.Done()
			r.Fail("obedient-part", ctx.Err(), "")
		}},
		{name: "silent", limit: 10 * time.Millisecond, run: func(ctx context.Context, r *report) {
			<-ctx.Done()
			r.OK("silent-part", "what it got to")
		}},
		{name: "quick", limit: time.Minute, run: func(_ context.Context, r *report) { r.OK("quick", "fine") }},
	})
	var got [][2]string
	for _, r := range results {
		got = append(got, [2]string{r.Check, string(r.Status)})
	}
	require.Equal(t, [][2]string{
		{"deaf-part", "ok"}, {"deaf", "fail"}, {"obedient-part", "fail"}, {"silent-part", "ok"}, {"silent", "fail"}, {"quick", "ok"},
	}, got)
	require.Contains(t, results[1].Found, "not finished within 10ms")
	close(dead)
	<-left
	require.Len(t, results, 6)
}

// The first of one cause stands, and what has another one, or none that is known.
func TestOneCauseIsOneFail(t *testing.T) {
	t.Parallel()
	failed := func(check string, err error) Result {
		return Result{Check: check, Status: Fail, Found: err.Error(), Do: "repair " + check, Err: err}
	}
	denied, full := &fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	gone := fmt.Errorf("%w: no connection", worker.ErrUnreachable)
	clock := fmt.Errorf("%w: an hour behind", worker.ErrClockRefused)
	for _, tc := range []struct {
		name    string
		results []Result
		want    map[string]string // of the Skips, the check that they name
	}{
		{"ZooKeeper", []Result{failed("zookeeper", gone), failed("zk-node", context.DeadlineExceeded), failed("zk-rights", gone), failed("peers", gone)}, map[string]string{"zk-node": "zookeeper", "zk-rights": "zookeeper", "peers": "zookeeper"}},
		{"no cluster", []Result{failed("zk-node", worker.ErrNoCluster), failed("zk-rights", worker.ErrNoCluster)}, map[string]string{"zk-rights": "zk-node"}},
		{"refused by both", []Result{failed("zk-node", worker.ErrNoCluster), failed("zk-rights", errors.New("no rights"))}, nil},
		{"clock", []Result{failed("record", clock), failed("zk-node", clock), failed("peers", clock), failed("layout", errors.New("before the epoch"))}, map[string]string{"zk-node": "record", "peers": "record", "layout": "record"}},
		{"clock and another's record", []Result{failed("record", worker.ErrForeign), failed("zk-node", clock), failed("peers", clock)}, map[string]string{"peers": "zk-node"}},
		{"directory", []Result{failed("data-sync", denied), failed("marks", denied), failed("segments", full), failed("record", fmt.Errorf("record: %w", denied))}, map[string]string{"marks": "data-sync", "record": "data-sync"}},
		{"two that time out", []Result{failed("mysql", context.DeadlineExceeded), failed("zookeeper", gone)}, nil},
		{"a dead mount", []Result{failed("data-dir", context.DeadlineExceeded), failed("record", context.DeadlineExceeded)}, map[string]string{"record": "data-dir"}},
		{"a warning is none", []Result{{Check: "zookeeper", Status: Warn, Err: gone}, failed("zk-node", gone)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			skipFollowing(tc.results)
			for _, r := range tc.results {
				if because, skipped := tc.want[r.Check]; skipped {
					require.Equal(t, Skip, r.Status, r.Check)
					require.Regexp(t, "^because of "+because+"(: |$)", r.Found)
					require.Empty(t, r.Do)
				} else {
					require.NotEqual(t, Skip, r.Status, r.Check)
				}
			}
		})
	}
}
