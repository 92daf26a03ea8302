package alarm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script writes a shell script and returns its path. $DIR in it is a directory of
// the test's.
func script(t *testing.T, text string) (path, dir string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "alarm.sh")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nDIR='"+dir+"'\n"+text+"\n"), 0o700))
	return path, dir
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestProgramGetsTheAlarm(t *testing.T) {
	t.Setenv("LEAFD_MYSQL", "user:pa55word@tcp(db:3306)/leaf")
	t.Setenv("KEPT", "kept")
	path, dir := script(t, `cat >"$DIR/in"; env >"$DIR/env"`)
	r := newRig(t, func(c *Config) { c.Exec = path })
	r.start()
	r.Raise(PeersSilent, "no peer tells\x00its clock", F("asked", 3))
	eventually(t, func() bool { return r.delivered("ok", "exec") == 1 })
	require.JSONEq(t, `{"code":"peers_silent","message":"no peer tells\u0000its clock","node":"10.0.0.5:8080","time":"2023-11-14T22:13:20.000Z",
		"version":"1.2.3","fields":{"asked":3},"folded":0}`, content(t, filepath.Join(dir, "in")))
	env := "\n" + content(t, filepath.Join(dir, "env"))
	for _, want := range []string{"\nLEAFD_ALARM_CODE=peers_silent\n", "\nLEAFD_ALARM_MESSAGE=no peer tells its clock\n", "\nLEAFD_ALARM_NODE=10.0.0.5:8080\n", "\nKEPT=kept\n", "\nPATH="} {
		require.Contains(t, env, want)
	}
	require.NotContains(t, env, "pa55word")
	require.NotContains(t, r.lines.String(), "not delivered")
}

func TestProgramsRunOneAtATime(t *testing.T) {
	path, dir := script(t, `echo begin >>"$DIR/log"; sleep 0.02; echo end >>"$DIR/log"`)
	r := newRig(t, func(c *Config) { c.Exec = path })
	r.start()
	const n = 8
	for i := range n {
		r.Raise(Code(fmt.Sprintf("test_%d", i)), "x")
	}
	eventually(t, func() bool { return r.delivered("ok", "exec") == n })
	require.Equal(t, strings.Repeat("begin\nend\n", n), content(t, filepath.Join(dir, "log")))
}

func TestProgramThatFails(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"status", `echo why >&2; exit 3`, "exit status 3"},
		{"its output", `echo why >&2; exit 3`, `why`},
		{"the end of long output", `i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done; exit 1`, `line 2999`},
		{"a signal", `kill -9 $$`, "signal: killed"},
		{"a program that is gone", `rm "$0"; exit 1`, "exit status 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path, _ := script(t, test.script)
			r := newRig(t, func(c *Config) { c.Exec = path })
			stop := r.start()
			r.Raise(ClockJumped, "x")
			r.Raise(ClockBackwards, "y")
			eventually(t, func() bool { return r.delivered("failed", "exec") == 2 })
			stop()
			require.Contains(t, r.lines.String(), test.want)
			require.Contains(t, r.lines.String(), path)
			require.Contains(t, r.lines.String(), `"code":"clock_jumped"`)
			require.NotContains(t, r.lines.String(), "line 2800")
			require.NotContains(t, r.lines.String(), "killed after", "only a time-out is one")
		})
	}
}

func TestProgramThatReadsNothing(t *testing.T) {
	path, _ := script(t, `exit 0`)
	r := newRig(t, func(c *Config) { c.Exec = path })
	r.start()
	fields := make([]Field, 100)
	for i := range fields {
		fields[i] = F(strconv.Itoa(i), strings.Repeat("x", longest)) // more than a pipe holds
	}
	r.Raise(ClockJumped, "x", fields...)
	eventually(t, func() bool { return r.delivered("ok", "exec") == 1 })
}

func TestProgramThatHangs(t *testing.T) {
	path, _ := script(t, `echo so far; exec sleep 1000`)
	r := newRig(t, func(c *Config) { c.Exec = path })
	r.outlets[1].to.Load().deliverer.(*program).timeout = 100 * time.Millisecond
	r.start()
	r.Raise(ClockJumped, "x")
	eventually(t, func() bool { return strings.Contains(r.lines.String(), "killed after 100ms") })
	require.Equal(t, 1, r.delivered("failed", "exec"))
}

// A script's children go with it.
func TestProgramIsKilledWithItsChildren(t *testing.T) {
	path, dir := script(t, `sleep 1000 & echo $! >"$DIR/tmp"; echo $$ >>"$DIR/tmp"; mv "$DIR/tmp" "$DIR/pids"; sleep 1000`)
	p, err := newProgram(path)
	require.NoError(t, err)
	p.timeout = time.Hour
	work, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	done := make(chan error, 1)
	go func() { done <- p.deliver(work, work, notice{}) }()
	eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, "pids")); return err == nil })
	giveUp()
	require.ErrorContains(t, <-done, "killed")
	pids := strings.Fields(content(t, filepath.Join(dir, "pids")))
	require.Len(t, pids, 2)
	for _, pid := range pids {
		eventually(t, func() bool { return !lives(t, pid) })
	}
}

// lives tells whether a process runs: a zombie doesn't.
func lives(t *testing.T, pid string) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(after, []byte("Z"))
}

// What a program starts on purpose may stay, and doesn't hold up the next alarm.
func TestProgramLeavesSomethingBehind(t *testing.T) {
	path, dir := script(t, `sleep 1000 & echo $! >"$DIR/pid"`)
	p, err := newProgram(path)
	require.NoError(t, err)
	require.NoError(t, p.deliver(context.Background(), context.Background(), notice{}))
	pid := strings.TrimSpace(content(t, filepath.Join(dir, "pid")))
	require.True(t, lives(t, pid))
	n, err := strconv.Atoi(pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(n, syscall.SIGKILL))
	eventually(t, func() bool { return !lives(t, pid) })
}

func TestProgramIsFoundInPath(t *testing.T) {
	path, _ := script(t, `exit 0`)
	t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
	p, err := newProgram("alarm.sh")
	require.NoError(t, err)
	require.Equal(t, path, p.path)
}

func TestTail(t *testing.T) {
	var one tail
	for _, s := range []string{"", "abc", "def"} {
		n, err := one.Write([]byte(s))
		require.NoError(t, err)
		require.Equal(t, len(s), n)
	}
	require.Equal(t, "abcdef", one.String())
	_, err := one.Write([]byte(strings.Repeat("x", tailBytes-1)))
	require.NoError(t, err)
	require.Equal(t, "…f"+strings.Repeat("x", tailBytes-1), one.String())
	_, err = one.Write([]byte(strings.Repeat("y", 3*tailBytes)))
	require.NoError(t, err)
	require.Equal(t, "…"+strings.Repeat("y", tailBytes), one.String())
}
