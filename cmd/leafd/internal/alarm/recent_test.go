package alarm

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRecent(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Cause = func(err error) string { return "because of " + err.Error() } })
	codes := func() (all []Code) {
		for _, a := range r.Recent() {
			all = append(all, a.Code)
		}
		return all
	}
	require.Empty(t, codes())
	r.Over(SegmentStore)
	require.Empty(t, codes(), "what was never raised does not end")

	r.Raise(SegmentStore, "no range", F("tag", "order"), F("highest_seen", 7), F("none", nil), Err(errors.New("x")))
	r.clock.Advance(40 * time.Second)
	r.Raise(SegmentStore, "no range", F("tag", "payment"), Err(errors.New("y")))
	r.Raise(PeersSilent, "silent", Private(errors.New("a port is open")))
	r.Raise(RecordSetAside, "set aside", Err(nil))
	got := r.Recent()
	require.Equal(t, []Code{PeersSilent, SegmentStore, RecordSetAside}, codes(), "those that last, the newest first")
	require.Equal(t, "tag payment: because of y", got[1].Cause)
	require.Equal(t, 2, got[1].Count)
	require.Equal(t, 40*time.Second, got[1].Age, "since it began")
	require.True(t, got[1].Lasts)
	require.Empty(t, got[0].Cause, "it is private")
	require.Equal(t, Info{RecordSetAside, got[2].Meaning, got[2].Action}, got[2].Info)
	require.False(t, got[2].Lasts, "it has no end")

	r.Over(SegmentStore, PeersSilent, ClockJumped)
	r.clock.Advance(time.Minute)
	r.Over(SegmentStore) // it is over already
	got = r.Recent()
	require.Equal(t, []Code{RecordSetAside, PeersSilent, SegmentStore}, codes())
	require.Equal(t, time.Minute, got[2].Over)
	require.Equal(t, 100*time.Second, got[2].Age)

	r.Raise(SegmentStore, "again", F("tag", "order"))
	got = r.Recent()
	require.Equal(t, SegmentStore, got[0].Code)
	require.Equal(t, 1, got[0].Count)
	require.Zero(t, got[0].Age, "it began again")

	r.clock.Advance(Remembered)
	require.Equal(t, []Code{SegmentStore}, codes(), "what is over is forgotten, what lasts is not")
}
