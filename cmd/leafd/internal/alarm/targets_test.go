package alarm

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// The targets may change at any time: what is raised from then on goes to the new
// ones, and a target that never answers doesn't hold up the one in its place.
func TestTargetsChange(t *testing.T) {
	got := make(chan string, 16)
	begun := make(chan struct{}, 16)
	var tries atomic.Int64
	first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if tries.Add(1) > 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.Copy(io.Discard, req.Body) // only then does the server notice that its client is gone
		begun <- struct{}{}
		<-req.Context().Done()
	}))
	defer first.Close()
	second := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) { got <- "second" }))
	defer second.Close()

	r := newRig(t, nil)
	stop := r.start()
	r.Raise(SegmentStore, "to nobody")
	set := func(webhook, program string) {
		t.Helper()
		take, err := r.Targets(webhook, program)
		require.NoError(t, err)
		take()
	}
	set(first.URL, "")
	r.Raise(ClockJumped, "to the first")
	<-begun

	_, err := r.Targets(second.URL, "/nowhere/at/all")
	require.ErrorIs(t, err, ErrConfig)
	_, err = r.Targets("ftp://secret", "")
	require.ErrorIs(t, err, ErrConfig)
	require.NotContains(t, err.Error(), "secret")
	require.Empty(t, got, "a refused change changes nothing")

	set(second.URL, "")
	r.Raise(ReportFailing, "to the second")
	first.CloseClientConnections()
	require.Equal(t, "second", <-got)

	set("", "")
	r.Raise(PeersSilent, "to nobody again")
	stop()
	require.Empty(t, got)
	require.EqualValues(t, 2, tries.Load(), "the try under way, and the last one")
}
