package peerclock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
)

func TestParseAnswer(t *testing.T) {
	const owner = "0b5c7ec2-8d4e-4b9c-9d54-3f1f5b0a7c11" // of each body that names none
	for _, test := range []struct {
		name, body string
		want       answer
		fails      string // part of the error
	}{
		{"starting", `{"timestamp":1700000000000}` + "\n", answer{owner: owner, timestamp: 1700000000000}, ""},
		{
			"whole", `{"node":"a:8080","worker_id":7,"ceiling":1700000006000,"cluster":"c","since":1699990000000,"slots_lent":3,"timestamp":1700000000000}`,
			answer{"a:8080", owner, 1700000000000, "c", 7, 1699990000000, 3},
			"",
		},
		{"a worker that is none", `{"worker_id":-1,"timestamp":1700000000000}`, answer{}, "worker ID"},
		{"a beginning that is none", `{"since":7,"timestamp":1700000000000}`, answer{}, "the time since which"},
		{"a long cluster", `{"cluster":"` + strings.Repeat("x", 256) + `","timestamp":1700000000000}`, answer{}, "names"},
		{"of a later version", `{"timestamp":1700000000000,"peers":[{"x":1}],"new":{}}`, answer{owner: owner, timestamp: 1700000000000}, ""},
		{"the first that can be", `{"timestamp":946684800000}`, answer{owner: owner, timestamp: 946684800000}, ""},
		{"the last that can be", `{"timestamp":253370764799999}`, answer{owner: owner, timestamp: 253370764799999}, ""},
		{"in seconds", `{"timestamp":1700000000}`, answer{}, "years"},
		{"beyond 64 bits", `{"timestamp":99999999999999999999}`, answer{}, "no JSON object"},
		{"a fraction", `{"timestamp":1700000000000.5}`, answer{}, "no JSON object"},
		{"none", `{"status":"UP"}`, answer{}, "no JSON object"},
		{"null alone", `null`, answer{}, "no JSON object"},
		{"a node that moves the cursor", `{"node":"\u001b[2J","timestamp":1700000000000}`, answer{}, "names"},
		{"no owner", `{"owner":"","timestamp":1700000000000}`, answer{}, "owner"},
		{"another kind of owner", `{"owner":"` + strings.Repeat("x", 36) + `","timestamp":1700000000000}`, answer{}, "owner"},
		{"another spelling of an owner", `{"owner":"urn:uuid:` + owner + `","timestamp":1700000000000}`, answer{}, "owner"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := test.body
			if !strings.Contains(body, "owner") {
				body = strings.Replace(body, "{", `{"owner":"`+owner+`",`, 1)
			}
			got, err := parseAnswer([]byte(body))
			require.Equal(t, test.want, got)
			if test.fails == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrAnswer)
			require.ErrorContains(t, err, test.fails)
			require.NotRegexp(t, "[0-9]{5}|xx|UP", err.Error())
		})
	}
}

// A peer's clock can be centuries off: the offset then is the greatest that there is, and none that wrapped around.
func TestOffsetsThatDontFit(t *testing.T) {
	at := func(year int) clock.Reading {
		return clock.Reading{WallNS: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}
	}
	require.Greater(t, offset(253370764799999, at(1800), MaxTimeout), 250*365*24*time.Hour)
	require.Less(t, offset(946684800000, at(2261), 0), -250*365*24*time.Hour)
}
