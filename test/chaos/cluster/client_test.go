package cluster

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/test/chaos/history"
	"github.com/leafd/leafd/test/chaos/nemesis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a client takes for IDs, and for a refusal: the checker can only be as exact.
func TestReadingAnswers(t *testing.T) {
	const refusal = `{"code":"overloaded","message":"too many"}`
	for name, c := range map[string]struct {
		status int
		body   string
		json   bool
		want   history.Record
		bad    bool
	}{
		"one ID":               {status: 200, body: "5", want: history.Record{IDs: []history.Run{{Lo: 5, N: 1}}}},
		"several":              {status: 200, body: "5\n6\n9\n", want: history.Record{IDs: []history.Run{{Lo: 5, N: 2}, {Lo: 9, N: 1}}}},
		"JSON":                 {status: 200, json: true, body: `{"ids":["5","6"]}`, want: history.Record{IDs: []history.Run{{Lo: 5, N: 2}}}},
		"nothing":              {status: 200, body: "", bad: true},
		"an empty line":        {status: 200, body: "5\n\n6\n", bad: true},
		"words":                {status: 200, body: "five", bad: true},
		"negative":             {status: 200, body: "-5", bad: true},
		"JSON without IDs":     {status: 200, json: true, body: `{}`, bad: true},
		"a refusal":            {status: 503, body: refusal, want: history.Record{Code: "overloaded"}},
		"a refusal, JSON":      {status: 503, json: true, body: refusal, want: history.Record{Code: "overloaded"}},
		"a refusal with IDs":   {status: 503, body: "5\n", want: history.Record{IDs: []history.Run{{Lo: 5, N: 1}}}},
		"a refusal of no form": {status: 503, body: "busy", bad: true},
		"no code":              {status: 503, body: `{"message":"x"}`, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := history.Record{Status: c.status}
			read(&r, http.Header{"Cache-Control": {"no-store"}}, []byte(c.body), c.json)
			if c.bad {
				require.NotEmpty(t, r.Bad)
				return
			}
			c.want.Status = c.status
			require.Equal(t, c.want, r)
		})
	}
	r := history.Record{Status: http.StatusOK}
	read(&r, http.Header{}, []byte("5"), false)
	require.NotEmpty(t, r.Bad, "what a cache may keep is a repeated ID")
}

// A kind without a deed would end a run in its middle.
func TestEveryFaultCanBeDone(t *testing.T) {
	deeds := new(Cluster).deeds()
	for _, kind := range nemesis.Kinds() {
		require.NotNil(t, deeds[kind], "%s", kind)
	}
	require.Len(t, deeds, len(nemesis.Kinds()))
}

func TestTagsAreAsked(t *testing.T) {
	cl := &client{rnd: newDice(1)}
	asked := map[string]bool{}
	for range 200 {
		asked[cl.pick()] = true
	}
	require.Len(t, asked, len(tags()))
	for tag := range asked {
		require.Contains(t, tags(), tag)
	}
}
