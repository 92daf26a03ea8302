package server

import (
	"testing"

	"github.com/leafd/leafd/server/ids"

	"github.com/stretchr/testify/require"
)

func TestSetLive(t *testing.T) {
	r := start(t, nil)
	require.Equal(t, 200, r.do("GET", "/api/snowflake/get/x?n=60", "").status)

	r.SetLive(ids.Live{MaxBatch: 50, AdminToken: []byte("another-token")})
	a := r.do("GET", "/api/snowflake/get/x?n=60", "")
	a.requireError(t, 400, "bad_count")
	require.Contains(t, a.body, "1 to 50")
	r.do("DELETE", "/api/segments/order", "", "Authorization: Bearer "+token).requireError(t, 401, "unauthorized")

	require.Equal(t, 204, r.do("DELETE", "/api/segments/order", "", "Authorization: Bearer another-token").status)
}
