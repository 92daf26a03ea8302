package server

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/segmenttest"
)

// A tag with IDs that might repeat is not made, and the answer has the number to give.
func TestCreateAboveWhatIsKnown(t *testing.T) {
	r := startEmpty(t, nil)
	guard, marks := segmenttest.NewGuard(), segmenttest.NewHighWater()
	_, err := marks.Use(t.Context(), "memory")
	require.NoError(t, err)
	require.NoError(t, marks.Raise(t.Context(), []segment.Mark{{Tag: "new", High: 700}}))
	b := r.newBackend()
	b.Admin.Marks, b.Admin.Alone = marks, true
	r.SetBackend(b)
	post := func(more string) answer {
		return r.do("POST", "/api/segments", `{"tag":"new","step":5`+more+`}`, bearer)
	}
	require.Contains(t, post(`,"max_id":699`).body, "max_id is below 700")
	post(`,"max_id":699`).requireError(t, 409, "max_id_low")
	b.Admin.Alone = false
	post("").requireError(t, 409, "max_id_unknown")
	require.Contains(t, post("").body, "700 at least")
	b = r.newBackend()
	b.Admin.Guard, b.Admin.Patience = guard, time.Minute
	r.SetBackend(b)
	guard.Break()
	post("").requireError(t, 409, "max_id_unknown")
	require.Contains(t, post("").body, "ZooKeeper")
	r.do("DELETE", "/api/segments/order", "", bearer).requireError(t, 503, "registry_unreachable")
	guard.Connect()
	guard.Fail(errors.New("secret"))
	require.NotContains(t, post("").body, "secret")
	guard.Fail(nil)
	made := post("")
	require.Equal(t, 201, made.status)
	require.JSONEq(t, `{"tag":"new","max_id":"1","step":"5","description":""}`, made.body)
}
