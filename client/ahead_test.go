package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// transport answers by a handler, without a network.
type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

// TestAheadLasts: a source that was used at a rate for half of Ahead, and for its first 64 IDs, goes on for Ahead when
// no daemon answers, and has no more than for 2.25 times Ahead.
func TestAheadLasts(t *testing.T) {
	for _, test := range []struct {
		name  string
		ahead time.Duration
		of    func(*Client, string) *Source
		want  time.Duration
	}{
		{"segment", 0, (*Client).Segment, 10 * time.Second},
		{"segment, ten minutes", 10 * time.Minute, (*Client).Segment, 10 * time.Minute},
		{"snowflake", 0, (*Client).Snowflake, time.Second},
		{"snowflake, 200 ms", 200 * time.Millisecond, (*Client).Snowflake, 200 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const every = time.Second / 50
				f := &fake{issued: make(map[int64]struct{})}
				var down atomic.Bool
				f.do(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
					if down.Load() {
						w.WriteHeader(http.StatusBadGateway)
					}
					return down.Load()
				})
				c, err := New(Config{Addresses: []string{"http://leafd"}, HTTPClient: &http.Client{Transport: transport{f}}, Ahead: test.ahead, MaxAhead: 8_000_000})
				require.NoError(t, err)
				defer c.Close()
				time.Sleep(time.Hour) // it is no rate that none was used
				s := test.of(c, "order")
				take := func() error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					_, err := s.Next(ctx)
					time.Sleep(every)
					return err
				}
				require.NoError(t, take())
				require.GreaterOrEqual(t, s.Stats().Ahead, firstSize-1)
				for range 100 + test.want/every/2 {
					require.NoError(t, take())
				}
				down.Store(true)
				gone := time.Now()
				for take() == nil {
				}
				lasted := time.Since(gone)
				require.GreaterOrEqual(t, lasted, test.want)
				require.LessOrEqual(t, lasted, test.want*9/4+64*every)
				t.Logf("IDs for %s", lasted)
			})
		})
	}
}
