package daemon

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clitest"
)

// One part that refuses keeps all of them from changing.
func TestReloadIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := NewReloader(settings.Config{Node: "n", Limits: settings.Limits{MaxBatch: 1}})
	var took []int
	var refuse error
	record := func(cfg settings.Config) (func(), error) {
		return func() { took = append(took, cfg.Limits.MaxBatch) }, nil
	}
	r.Join("one", record)
	r.Join("two", func(settings.Config) (func(), error) { return func() {}, refuse })
	require.Equal(t, []int{1}, took)

	refuse = io.ErrUnexpectedEOF
	require.ErrorIs(t, r.apply(settings.Config{Limits: settings.Limits{MaxBatch: 2}}), refuse)
	require.Equal(t, []int{1}, took)
	require.Equal(t, 1, r.current().Limits.MaxBatch)

	refuse = nil
	require.NoError(t, r.apply(settings.Config{Node: "another", Limits: settings.Limits{MaxBatch: 3}}))
	require.Equal(t, []int{1, 3}, took)
	require.Equal(t, "n", r.current().Node)
	r.Join("one", record)
	require.Equal(t, []int{1, 3, 3}, took)
	refuse = io.ErrUnexpectedEOF
	r.Join("three", func(settings.Config) (func(), error) { return nil, refuse })
	require.Error(t, r.apply(settings.Config{}), "a part that refused when it joined is asked again")
}

// A change of the level reaches every logger, those too that others made from the first.
func TestLogLevelChanges(t *testing.T) {
	t.Parallel()
	var b clitest.LockedBuffer
	log, level, err := NewLogger(&b, "warn")
	require.NoError(t, err)
	derived := log.With().Str("part", "one").Logger()
	derived.Info().Msg("unseen")
	commit, err := level.Prepare(settings.Config{Log: settings.Log{Level: "debug"}})
	require.NoError(t, err)
	derived.Info().Msg("unseen still")
	commit()
	derived.Debug().Msg("seen")
	log.Trace().Msg("unseen")
	require.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
	require.Contains(t, b.String(), `"message":"seen"`)
	_, err = level.Prepare(settings.Config{Log: settings.Log{Level: "loud"}})
	require.Error(t, err)
}

func TestLogger(t *testing.T) {
	for _, tc := range []struct {
		level string
		lines int
	}{{"info", 2}, {"debug", 3}, {"warn", 1}, {"error", 0}} {
		t.Run(tc.level, func(t *testing.T) {
			var b clitest.LockedBuffer
			log, _, err := NewLogger(&b, tc.level)
			require.NoError(t, err)
			log.Debug().Msg("one")
			log.Info().Msg("two")
			log.Warn().Str("node", "n").Msg("three")
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if tc.lines == 0 {
				require.Empty(t, b.String())
				return
			}
			require.Len(t, lines, tc.lines)
			for _, line := range lines {
				require.True(t, json.Valid([]byte(line)), line)
			}
			require.Contains(t, lines[len(lines)-1], "three")
		})
	}
	t.Setenv("NO_COLOR", "1")
	for _, terminal := range []bool{false, true} {
		var b clitest.LockedBuffer
		log, _, err := newLogger(&b, "info", terminal)
		require.NoError(t, err)
		const odd = "ä\u202e\u0085\x1b[2J\n\U000e0041z"
		log.Info().Str("tag", odd).Object("before", rowOf(odd)).Msg("three " + odd[:5])
		line := strings.TrimSuffix(b.String(), "\n")
		require.False(t, strings.ContainsFunc(line, segment.Hidden), "%q", line)
		require.Contains(t, line, "ä")
		require.Contains(t, line, `\u202e`)
		require.Equal(t, !terminal, json.Valid([]byte(line)), line)
		if !terminal {
			var read struct{ Tag, Message string }
			require.NoError(t, json.Unmarshal([]byte(line), &read))
			require.Equal(t, odd, read.Tag, "programs read what it was")
		}
	}
	_, _, err := NewLogger(io.Discard, "loud")
	require.Error(t, err)
	var usage *settings.UsageError
	require.ErrorAs(t, err, &usage)
}

// rowOf is an object in a line of the log.
type rowOf string

func (r rowOf) MarshalZerologObject(e *zerolog.Event) { e.Str("description", string(r)) }
