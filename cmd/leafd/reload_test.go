package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock/clocktest"
)

// L2: the fields that withLive copies are those of the settings marked live, each of
// them, and no others: least of all what makes the daemon's identity.
func TestLiveSettingsAreThoseMarked(t *testing.T) {
	t.Parallel()
	start := captured(t, cli{})
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			other, ok := otherValue(t, s)
			if !ok {
				return
			}
			next := captured(t, cli{args: append(needs(t, s.name), "--"+s.name+"="+other)})
			before, after := settingsOnly(start), settingsOnly(start.withLive(next))
			require.Equal(t, s.live, !reflect.DeepEqual(before, after), "%s=%s", s.name, other)
		})
	}
}

// settingsOnly is cfg without what is no setting.
func settingsOnly(cfg Config) Config {
	cfg.Warnings = nil
	return cfg
}

// needs are the flags without which a setting has no other value.
func needs(t *testing.T, name string) []string {
	t.Helper()
	switch name {
	case "worker-id", "datacenter":
		return []string{"--layout", "41+5+5+12"}
	default:
		return nil
	}
}

// otherValue returns a value that is not the default; false where a lone value is refused.
func otherValue(t *testing.T, s setting) (string, bool) {
	t.Helper()
	switch s.kind {
	case kindNumber:
		if s.max == maxNumber {
			return map[string]string{"epoch": "1288834974000"}[s.name], s.name == "epoch"
		}
		if s.def == fmt.Sprint(s.max) {
			return fmt.Sprint(s.max - 1), true
		}
		return fmt.Sprint(max(s.min, 1) + 41), true
	case kindDuration:
		def, err := time.ParseDuration(s.def)
		require.NoError(t, err)
		if s.name == "reclaim-after" {
			return "1h", true
		}
		return (def + 100*time.Millisecond).String(), true
	case kindList:
		return s.words[0], true
	default:
	}
	if s.words != nil {
		for _, word := range s.words {
			if word != s.def {
				return word, true
			}
		}
	}
	switch s.name {
	case "admin-token-file":
		return writeFile(t, "token", "0123456789abcdef"), true
	case "alarm-webhook":
		return "http://127.0.0.1:1/hook", true
	case "alarm-exec":
		return "/bin/true", true
	case "data-dir", "node":
		return "another", true
	case "zk", "listen", "advertise":
		return "127.0.0.1:2181", true
	case "mysql":
		return "leaf@tcp(127.0.0.1:3306)/leaf", true
	default:
		return "", false
	}
}

// L1: one part that refuses keeps all of them from changing.
func TestReloadIsAllOrNothing(t *testing.T) {
	t.Parallel()
	r := newReloader(Config{Node: "n", MaxBatch: 1})
	var took []int
	var refuse error
	record := func(cfg Config) (func(), error) {
		return func() { took = append(took, cfg.MaxBatch) }, nil
	}
	require.NoError(t, r.join(record))
	require.NoError(t, r.join(func(Config) (func(), error) { return func() {}, refuse }))
	require.Equal(t, []int{1}, took)

	refuse = io.ErrUnexpectedEOF
	require.ErrorIs(t, r.apply(Config{MaxBatch: 2}), refuse)
	require.Equal(t, []int{1}, took)
	require.Equal(t, 1, r.current().MaxBatch)

	refuse = nil
	require.NoError(t, r.apply(Config{Node: "another", MaxBatch: 3}))
	require.Equal(t, []int{1, 3}, took)
	require.Equal(t, "n", r.current().Node, "L2")
	require.NoError(t, r.join(record))
	require.Equal(t, []int{1, 3, 3}, took, "L4")
	require.Error(t, r.join(func(Config) (func(), error) { return nil, errors.New("no") }))
}

// L5: however many signals come during a reload, one more follows it.
func TestSignalsDuringAReload(t *testing.T) {
	told, proceed := make(chan struct{}, 12), make(chan struct{})
	var stderr lockedBuffer
	a := newApp(process{Args: []string{"serve"}, Stdout: io.Discard, Stderr: &stderr, Clock: clocktest.New(testNow)})
	a.reloading = func() func() {
		told <- struct{}{}
		<-proceed
		return func() { told <- struct{}{} }
	}
	a.daemon = func(ctx context.Context, _ Config, _ daemonDeps) error {
		for n := range 4 { // begin and end of the first, begin and end of the second
			if n < 2 {
				for range 1 + 4*n {
					if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
						return err
					}
				}
			}
			if n == 1 {
				close(proceed)
			}
			select {
			case <-told:
			case <-time.After(time.Minute):
				return fmt.Errorf("reload told %d times", n)
			}
		}
		return ctx.Err() // a reload ends nothing
	}
	require.Equal(t, exitOK, a.run(t.Context()))
	// A signal that the system delivers late begins another: never more than signals.
	reloads := strings.Count(stderr.String(), "reload: no setting")
	require.GreaterOrEqual(t, reloads, 2, stderr.String())
	require.LessOrEqual(t, reloads, 6, stderr.String())
}

// rewrite replaces a file as an operator's tools do.
func rewrite(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(content), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func (l *child) hup() {
	l.t.Helper()
	require.NoError(l.t, l.cmd.Process.Signal(syscall.SIGHUP))
}

// A real daemon takes what may change, refuses what is wrong as a whole, names what
// needs a restart, and issues IDs all the while.
func TestReloadOfARealDaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	token, config, alarms := m.dir+"/token", m.dir+"/leafd.yaml", m.dir+"/alarms"
	rewrite(t, token, "first-token-0123456789")
	settings := "admin-token-file: " + token + "\n"
	rewrite(t, config, settings)
	l := m.ready("--config", config, "--log-level=info")
	ld := newLoad(l, "/api/snowflake/get/x", "/api/segment/get/leaf-segment-test")
	before := l.info()
	require.Equal(t, 401, l.send("DELETE", "/api/segments/none", "second-token-0123456789", "").status)

	// One mistake, and nothing is taken.
	rewrite(t, token, "second-token-0123456789")
	rewrite(t, config, settings+"max-batch: 5\nclock-threshold: 7s\nsegment-wait: never\nreport-intervall: 3s\n")
	l.hup()
	l.awaitLog("reload: refused", "segment-wait", "report-intervall", `"level":"error"`)
	require.Equal(t, 200, l.mustGet("/api/snowflake/get/x?n=6").status)
	require.Equal(t, 401, l.send("DELETE", "/api/segments/none", "second-token-0123456789", "").status)

	rewrite(t, config, settings+"max-batch: 5\nclock-threshold: 7s\nnode: another\nlog-level: debug\nmysql: leaf:hunter2@tcp(127.0.0.1:1)/leaf\n"+
		"alarm-exec: "+writeScript(t, "#!/bin/sh\ncat >> "+alarms+"\n")+"\n")
	l.hup()
	l.awaitLog("reload: settings taken", "max-batch: 10000 -> 5", "admin-token-file: (content) -> (new content)", "clock-threshold: 5s -> 7s", "alarm-exec")
	l.awaitLog("need a restart", `"settings":["node","mysql"]`)
	require.NotContains(t, l.logged(), "log-level", "the flag wins over the file")
	require.NotContains(t, l.logged(), "hunter2")
	require.NotContains(t, l.logged(), "-token-0123456789")
	require.Equal(t, 400, l.mustGet("/api/snowflake/get/x?n=6").status)
	require.Equal(t, 404, l.send("DELETE", "/api/segments/none", "second-token-0123456789", "").status)
	require.Equal(t, 401, l.send("DELETE", "/api/segments/none", "first-token-0123456789", "").status)

	// Nothing has changed since but what waits for the restart.
	l.hup()
	l.awaitLog("reload: no setting")
	after := l.info()
	require.Equal(t, []any{before.ID, before.Node, before.Owner, before.Started}, []any{after.ID, after.Node, after.Owner, after.Started})

	n := ld.count()
	require.Eventually(t, func() bool { return ld.count() > n }, 30*time.Second, 5*time.Millisecond)
	ld.stop()
	require.Empty(t, ld.broken)
	require.Empty(t, ld.refused)
	require.Zero(t, ld.failed, "no request was lost")

	// The alarm goes to the new program.
	m.step(-time.Hour)
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(alarms)
		return err == nil && strings.Contains(string(content), "clock_backwards")
	}, 30*time.Second, 5*time.Millisecond)
	require.Equal(t, exitOK, l.stop())
}

func writeScript(t *testing.T, content string) string {
	t.Helper()
	path := writeFile(t, "script", content)
	require.NoError(t, os.Chmod(path, 0o700))
	return path
}

// A change of the level reaches every logger, those too that others made from the first.
func TestLogLevelChanges(t *testing.T) {
	t.Parallel()
	var b lockedBuffer
	log, level, err := newLogger(&b, "warn", "json")
	require.NoError(t, err)
	derived := log.With().Str("part", "one").Logger()
	derived.Info().Msg("unseen")
	take, err := level.takeLevel(Config{LogLevel: "debug"})
	require.NoError(t, err)
	derived.Info().Msg("unseen still")
	take()
	derived.Debug().Msg("seen")
	log.Trace().Msg("unseen")
	require.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
	require.Contains(t, b.String(), `"message":"seen"`)
	_, err = level.takeLevel(Config{LogLevel: "loud"})
	require.Error(t, err)
}
