package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/internal/loadtest"
	"github.com/leafd/leafd/test/chaos/history"
	"github.com/leafd/leafd/test/chaos/nemesis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What a client takes for IDs, for a refusal, and for neither: the checker can only be as exact.
func TestReadingAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer loadtest.Answer
		want   history.Record
		bad    bool
	}{
		"IDs":                  {loadtest.Answer{Status: 200, Good: true, NoStore: true, IDs: []int64{5, 6, 9}}, history.Record{IDs: []history.Run{{Lo: 5, N: 2}, {Lo: 9, N: 1}}}, false},
		"what a cache keeps":   {loadtest.Answer{Status: 200, Good: true, IDs: []int64{5}}, history.Record{}, true},
		"words":                {loadtest.Answer{Status: 200, NoStore: true, Body: []byte("five")}, history.Record{}, true},
		"a refusal":            {loadtest.Answer{Status: 503, Code: "overloaded"}, history.Record{Code: "overloaded"}, false},
		"a refusal with IDs":   {loadtest.Answer{Status: 503, Good: true, IDs: []int64{5}}, history.Record{IDs: []history.Run{{Lo: 5, N: 1}}}, false},
		"a refusal of no form": {loadtest.Answer{Status: 503, Body: []byte("busy")}, history.Record{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var r history.Record
			read(&r, c.answer)
			if c.bad {
				require.NotEmpty(t, r.Bad)
				return
			}
			c.want.Status = c.answer.Status
			require.Equal(t, c.want, r)
		})
	}
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
