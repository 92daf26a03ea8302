package reply

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/leafd/leafd/server/condition"
)

func TestTranslations(t *testing.T) {
	for _, tr := range translations {
		require.Equal(t, tr.answer, To(fmt.Errorf("wrapped: %w", tr.is)))
	}
}

func TestToBroken(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	require.Equal(t, errRequestTimeout, toBroken(fmt.Errorf("headers: %w", timeout)))
	require.Equal(t, errHeaderTooLarge, toBroken(fmt.Errorf("x: %w", &fasthttp.ErrSmallBuffer{})))
	require.Equal(t, errBodyTooLarge, toBroken(fmt.Errorf("x: %w", fasthttp.ErrBodyTooLarge)))
	require.Equal(t, ErrBadRequest, toBroken(io.ErrUnexpectedEOF))
}

// One name for one trouble: an answer 503 has the code of a condition, but for a fetch that is slow, and too much asked. They are few.
func TestOneNameForOneTrouble(t *testing.T) {
	codes := map[string]bool{}
	for _, row := range condition.Rows() {
		codes[string(row.Code)] = true
	}
	for _, e := range All() {
		if e.Status == http.StatusServiceUnavailable && !codes[e.Code] {
			require.Contains(t, []*Error{ErrSegmentUnavailable, ErrOverloaded}, e)
			codes[e.Code] = true
		}
	}
	require.LessOrEqual(t, len(codes), 31)
}

// Every row has an answer that the server knows, and counts.
func TestEachConditionHasAnAnswer(t *testing.T) {
	answers, err := New(prometheus.NewRegistry(), zerolog.Nop())
	require.NoError(t, err)
	for _, row := range condition.Answers() {
		require.Contains(t, answers.errors, ToCondition(condition.Condition{Info: &row}).Code)
	}
}

func TestWantsJSON(t *testing.T) {
	for _, test := range []struct {
		name   string
		accept []string
		want   bool
	}{
		{"none", nil, false},
		{"anything", []string{"*/*"}, false},
		{"JSON", []string{"application/json"}, true},
		{"text first, the same weight", []string{"text/plain, application/json"}, true},
		{"a quality", []string{"text/plain, application/json ; v=1 ; Q=0.3"}, true},
		{"another type", []string{"application/jsonp, text/html"}, false},
		{"two lines", []string{"*/*;q=0.1", "application/json"}, true},
		{"browser", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h fasthttp.RequestHeader
			for _, a := range test.accept {
				h.Add("Accept", a)
			}
			require.Equal(t, test.want, Accepts(&h, TypeJSON))
		})
	}
}

// FuzzAccept: a type that is accepted is named.
func FuzzAccept(f *testing.F) {
	for _, s := range []string{"", "*/*", "application/json;q=0.2, */*", ",application/json"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var h fasthttp.RequestHeader
		h.Set("Accept", s)
		if Accepts(&h, TypeJSON) {
			require.Contains(t, strings.ToLower(s), "application/json")
		}
	})
}

func FuzzTraceparent(f *testing.F) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, v := range []string{
		"", trace, "00-" + trace + "-" + span + "-01", "00-" + trace + "-" + span, "01-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01-x",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01", "00-" + strings.Repeat("0", 32) + "-" + span + "-01", "00-" + trace + "-" + strings.Repeat("0", 16) + "-01",
		"00-" + trace + "_" + span + "-01", `00-"` + trace[1:] + "-" + span + "-01", "00-" + trace + "-" + span + "-\xff1",
	} {
		f.Add(v)
	}
	form := regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)
	f.Fuzz(func(t *testing.T, v string) {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.Set("Traceparent", v)
		trace, span := traceOf(&ctx)
		parts := form.FindStringSubmatch(string(ctx.Request.Header.Peek("Traceparent")))
		if parts == nil || strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
			require.Nil(t, trace)
			return
		}
		require.Equal(t, []string{string(trace), string(span)}, parts[1:])
	})
}
