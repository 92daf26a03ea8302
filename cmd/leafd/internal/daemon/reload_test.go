package daemon

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment"
	"github.com/leafd/leafd/test/clitest"
)

// What can't be read changes no part; what can reaches all of them, and those that join later.
func TestReloadIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := NewReloader(settings.Config{Node: "n", Limits: settings.Limits{MaxBatch: 1}})
	r.Log, r.Values, r.Clock = zerolog.Nop(), &settings.Values{}, clock.System()
	var next settings.Config
	var refuse error
	r.Load = func(context.Context) (settings.Config, *settings.Values, error) {
		return next, &settings.Values{}, refuse
	}
	took := map[string][]int{}
	record := func(name string) {
		r.Join(name, func(cfg settings.Config) { took[name] = append(took[name], cfg.Limits.MaxBatch) })
	}
	record("one")
	record("two")
	require.Equal(t, map[string][]int{"one": {1}, "two": {1}}, took)

	next, refuse = settings.Config{Limits: settings.Limits{MaxBatch: 2}}, io.ErrUnexpectedEOF
	r.once(t.Context())
	require.Equal(t, map[string][]int{"one": {1}, "two": {1}}, took)
	require.Equal(t, 1, r.current().Limits.MaxBatch)
	require.ErrorContains(t, *r.refused.Load(), "unexpected EOF")

	next, refuse = settings.Config{Node: "another", Limits: settings.Limits{MaxBatch: 3}}, nil
	r.once(t.Context())
	require.Equal(t, "n", r.current().Node)
	require.Nil(t, r.refused.Load())
	record("one")
	require.Equal(t, map[string][]int{"one": {1, 3, 3}, "two": {1, 3}}, took)
}

// What every client may read of a refused reload has no value of a setting that names a file.
func TestRefusalShowsNoSecretInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	for _, s := range settings.All() {
		if s.Kind != settings.KindFile {
			continue
		}
		for _, name := range []string{"/etc/leafd/leafd.yaml:3: " + s.Name, "--" + s.Name, settings.EnvName(s.Name)} {
			said := refusal(0, settings.Errors{"--lease is \"x\": want 1m to 8760h", name + ` is "hunter2": open hunter2: no such file`}).Error()
			require.NotContains(t, said, "hunter2")
			require.Contains(t, said, "--lease is \"x\": want 1m to 8760h; "+name+" can't be used, the log says why")
		}
	}
}

// However many signals come during a reload, one more follows it.
func TestSignalsDuringAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReloader(settings.Config{})
		r.Log, r.Values, r.Clock = zerolog.Nop(), &settings.Values{}, clock.System()
		var reloads atomic.Int64
		r.Load = func(context.Context) (settings.Config, *settings.Values, error) {
			reloads.Add(1)
			time.Sleep(time.Second)
			return settings.Config{}, &settings.Values{}, io.ErrUnexpectedEOF // it ends nothing
		}
		signals := make(chan os.Signal, 1) // as serve has it; the runtime drops what doesn't fit
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { r.Run(ctx, signals) })
		defer run.Wait()
		defer stop()
		send := func(n int) {
			for range n {
				select {
				case signals <- syscall.SIGHUP:
				default:
				}
			}
			synctest.Wait()
		}
		send(1)
		send(5)
		require.EqualValues(t, 1, reloads.Load())
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, reloads.Load())
	})
}

// A change of the level reaches every logger, those too that others made from the first.
func TestLogLevelChanges(t *testing.T) {
	t.Parallel()
	var b clitest.LockedBuffer
	log, take := NewLogger(&b, false)
	take(settings.Config{LogLevel: "warn"})
	derived := log.With().Str("part", "one").Logger()
	derived.Info().Msg("unseen")
	take(settings.Config{LogLevel: "debug"})
	derived.Debug().Msg("seen")
	log.Trace().Msg("unseen")
	require.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
	require.Contains(t, b.String(), `"message":"seen"`)
}

func TestLinesOfTheLog(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for _, terminal := range []bool{false, true} {
		var b clitest.LockedBuffer
		log, _ := NewLogger(&b, terminal)
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
}

// rowOf is an object in a line of the log.
type rowOf string

func (r rowOf) MarshalZerologObject(e *zerolog.Event) { e.Str("description", string(r)) }
