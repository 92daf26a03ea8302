package cli

import (
	"cmp"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leafd/leafd/clock"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/clitest"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	require.Equal(t, settings.Config{
		Node: "127.0.0.1:8080", DataDir: "leafd-data", Modes: []string{"snowflake", "segment"},
		Listen:    settings.Listen{On: "127.0.0.1:8080", Address: "127.0.0.1:8080", Advertise: "127.0.0.1:8080"},
		ZooKeeper: settings.ZooKeeper{Root: "/leaf", SessionTimeout: 6 * time.Second, Lease: 168 * time.Hour},
		Snowflake: settings.Snowflake{On: true, Bits: "41+10+12", Epoch: 1288834974657, Layout: snowflake.DefaultLayout()},
		Segment:   settings.Segment{On: true, Guard: "prefer"},
		Clock:     settings.Clock{StartupTimeout: 30 * time.Second, Threshold: 5 * time.Second, Estimator: clock.Median},
		Limits:    settings.Limits{MaxBatch: 10_000, MaxRange: 100_000, RateLimits: map[string]int{}},
		LogLevel:  "info",
		Tuning:    settings.Tuning{ReportInterval: 3 * time.Second, CeilingLead: 6 * time.Second},
	}, captured(t, invocation{}))
}

// Each setting is given to all sources at once, and the sources are taken away
// one after the other, the strongest first.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		setting, flag, env, file string
		read                     func(settings.Config) any
		want                     [4]any // by flag, variable, file and default
		shown                    string // of the file's
	}{
		{"node", "by-flag", "by-env", "by-file", func(c settings.Config) any { return c.Node }, [4]any{"by-flag", "by-env", "by-file", "127.0.0.1:8080"}, "by-file"},
		{"worker-id", "7", "8", "9", func(c settings.Config) any { return c.Snowflake.WorkerID }, [4]any{int64(7), int64(8), int64(9), int64(0)}, "9"},
		{"max-batch", "10000", "8", "9", func(c settings.Config) any { return c.Limits.MaxBatch }, [4]any{10000, 8, 9, 10000}, "9"}, // given as its default
		{"drain-delay", "1s", "2s", "1500ms", func(c settings.Config) any { return c.HTTP.DrainDelay }, [4]any{time.Second, 2 * time.Second, 1500 * time.Millisecond, time.Duration(0)}, "1.5s"},
		{"modes", "snowflake", "segment", "[segment, snowflake]", func(c settings.Config) any { return [2]bool{c.Snowflake.On, c.Segment.On} }, [4]any{[2]bool{true, false}, [2]bool{false, true}, [2]bool{true, true}, [2]bool{true, true}}, "segment,snowflake"},
		{"release-on-stop", "true", "false", "true", func(c settings.Config) any { return c.ZooKeeper.ReleaseOnStop }, [4]any{true, false, true, false}, "true"},
		{"log-level", "warn", "error", "debug", func(c settings.Config) any { return c.LogLevel }, [4]any{"warn", "error", "debug", "info"}, "debug"},
	} {
		t.Run(tc.setting, func(t *testing.T) {
			t.Parallel()
			file := []string{"--config", clitest.WriteFile(t, "leafd.yaml", tc.setting+": "+tc.file+"\n")}
			env := map[string]string{settings.EnvName(tc.setting): tc.env}
			for _, step := range []struct {
				args   []string
				env    map[string]string
				want   any
				source string
			}{
				{append([]string{"--" + tc.setting + "=" + tc.flag}, file...), env, tc.want[0], "flag"},
				{file, env, tc.want[1], "env"},
				{file, map[string]string{settings.EnvName(tc.setting): ""}, tc.want[2], "file"},
				{nil, nil, tc.want[3], "default"},
			} {
				require.Equal(t, step.want, tc.read(captured(t, invocation{args: step.args, env: step.env})), step.source)
				shown := map[string]string{"flag": tc.flag, "file": regexp.QuoteMeta(tc.shown)}[step.source]
				require.Regexp(t, `(?m)^`+tc.setting+` +`+cmp.Or(shown, ".*")+` +`+step.source+` *$`, invocation{args: append([]string{"config"}, step.args...), env: step.env}.run(t).OK(t))
			}
		})
	}
}

func TestConfigFileNamedByVariable(t *testing.T) {
	t.Parallel()
	named := clitest.WriteFile(t, "env.yaml", "node: by-variable\n")
	other := clitest.WriteFile(t, "flag.yaml", "node: by-flag\n")
	env := map[string]string{"LEAFD_CONFIG": named}
	require.Equal(t, "by-variable", captured(t, invocation{env: env}).Node)
	require.Equal(t, "by-flag", captured(t, invocation{env: env, args: []string{"--config", other}}).Node)
	require.Equal(t, "127.0.0.1:8080", captured(t, invocation{env: env, args: []string{"--config="}}).Node)
}

func TestUnknownVariableIsWarnedOf(t *testing.T) {
	t.Parallel()
	env := map[string]string{"LEAFD_NOED": "hunter2-hunter2", "LEAFD_NODE": "n", "OTHER": "x"}
	cfg := captured(t, invocation{env: env})
	require.Equal(t, []string{"unknown environment variable LEAFD_NOED is ignored"}, cfg.Warnings)
	require.Equal(t, "n", cfg.Node)

	out := invocation{args: []string{"config"}, env: env}.run(t)
	require.Equal(t, ExitOK, out.Code)
	require.Equal(t, "leafd: warning: "+cfg.Warnings[0]+"\n", out.Stderr)
}

func TestBadSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		file string
		says []string
	}{
		{name: "unknown key", file: "max_batch: 5", says: []string{`leafd.yaml:1: unknown key "max_batch"`}},
		{name: "the file names a file", file: "config: x", says: []string{`unknown key "config"`}},
		{name: "key with a level", file: "listen:\n  host: a", says: []string{"leafd.yaml:2: listen is map[host:a]: want one value"}},
		{name: "text for a number", file: "worker-id: seven", says: []string{`leafd.yaml:1: worker-id is "seven": want a whole number`}},
		{name: "number without unit", file: "drain-delay: 5", says: []string{`drain-delay is "5": want a duration with its unit`}},
		{name: "not a mapping", file: "hunter2-hunter2", says: []string{"leafd.yaml: want lines of the form `name: value`"}},
		{name: "no YAML", file: "node: [", says: []string{"leafd.yaml: yaml: line 1"}},
		{name: "the same key twice", file: "node: a\nnode: b", says: []string{`"node" already defined`}},
		{name: "second document", file: "node: a\n---\nlisten: b", says: []string{"line 2 begins a second YAML document"}},

		{name: "flag", args: []string{"--worker-id", "x"}, says: []string{`--worker-id is "x": want a whole number, 0 or more`}},
		{name: "variable", env: map[string]string{"LEAFD_MAX_BATCH": "0"}, says: []string{`LEAFD_MAX_BATCH is "0": want a whole number, 1 to 1000000`}},
		{name: "epoch too late", args: []string{"--epoch=9223372036854775807"}, says: []string{"--epoch is \"9223372036854775807\": bad layout"}},
		{name: "layout", args: []string{"--layout=41+10+13"}, says: []string{`--layout is "41+10+13": bad layout`, "64 bits"}},
		{name: "worker beyond the layout", args: []string{"--worker-id=1024"}, says: []string{"--worker-id is \"1024\": want 0 to 1023 with the layout 41+10+12"}},
		{name: "datacenter without one", args: []string{"--datacenter=1"}, says: []string{"--datacenter is \"1\": want 0 to 0"}},
		{name: "mode", args: []string{"--modes=uuid"}, says: []string{`--modes is "uuid": want one or more of snowflake, segment`}},
		{name: "segments of a cluster without a database", args: []string{"--modes=segment", "--zk=127.0.0.1:1"}, says: []string{"want mysql with zk"}},
		{name: "several hosts alone", args: []string{"--mysql=u@tcp(a:1,b:1)/l"}, says: []string{"want zk with several hosts"}},
		{name: "several hosts, unguarded", args: []string{"--mysql=u@tcp(a:1,b:1)/l", "--zk=127.0.0.1:1", "--segment-guard=prefer"}, says: []string{"want require with several hosts"}},
		{name: "duration", args: []string{"--drain-delay=soon"}, says: []string{`--drain-delay is "soon": want a duration`}},
		{name: "a flag that is a constant now", args: []string{"--ceiling-lead=7s"}, says: []string{"unknown flag: --ceiling-lead"}},
		{name: "start shorter than lead", args: []string{"--startup-timeout=6s"}, says: []string{"--startup-timeout is \"6s\": want more than 6s, for which a start after a crash may wait"}},
		{name: "level", args: []string{"--log-level=loud"}, says: []string{`want one of trace, debug, info, warn, error`}},
		{name: "listen without port", args: []string{"--listen=127.0.0.1"}, says: []string{"--listen is \"127.0.0.1\": want host:port"}},
		{name: "advertise everything", args: []string{"--advertise=0.0.0.0:80"}, says: []string{"want the address of one machine"}},
		{name: "advertise a name", args: []string{"--advertise=example:80"}, says: []string{"want ip:port"}},
		{name: "advertise port 0", args: []string{"--advertise=10.0.0.5:0"}, says: []string{"want a port from 1"}},
		{name: "node with a slash", args: []string{"--node=a/b"}, says: []string{"--node is \"a/b\"", "no slash"}},
		{name: "node too long", args: []string{"--node=" + strings.Repeat("n", 201)}, says: []string{"at most 200"}},
		{name: "no directory", args: []string{"--data-dir="}, says: []string{"--data-dir is \"\": want a directory"}},
		{name: "quotes around a DSN", file: `mysql: "'leaf:hunter2@tcp(db)/leaf'"`, says: []string{"leafd.yaml:1: mysql is (hidden): want it without the quotes around it"}},
		{name: "a line end in a DSN", env: map[string]string{"LEAFD_MYSQL": "leaf:hunter2@tcp(db)/leaf\n?tls=true"}, says: []string{"LEAFD_MYSQL is (hidden): want no line end"}},
		{name: "quotes around the file's name", args: []string{"--config='leafd.yaml'"}, says: []string{"config file 'leafd.yaml': want it without the quotes"}},
		{name: "what depends on a bad DSN", args: []string{"--mysql='x'", "--mysql-password-file=/none", "--zk=127.0.0.1:1", "--modes=segment"}, says: []string{"2 bad settings", "--mysql is", "--mysql-password-file is"}},
		{name: "no file", args: []string{"--config=/nonexistent/leafd.yaml"}, says: []string{"config file /nonexistent/leafd.yaml: no such file"}},
		{name: "a directory for a file", args: []string{"--config=/"}, says: []string{"config file /: want a regular file, not a directory"}},
		{name: "webhook that is no URL", args: []string{"--alarm-webhook=hunter2"}, says: []string{"--alarm-webhook is (hidden): want an http or https URL with a host"}},
		{name: "webhook of another scheme", args: []string{"--alarm-webhook=ftp://hunter2.example/"}, says: []string{"http or https URL"}},
		{name: "unknown flag", args: []string{"--lisen=x"}, says: []string{"unknown flag: --lisen"}},
		{name: "an argument", args: []string{"now"}, says: []string{"now"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, command := range []string{"serve", "config"} {
				args := append([]string{command}, tc.args...)
				if tc.file != "" {
					args = append(args, "--config", clitest.WriteFile(t, "leafd.yaml", tc.file+"\n"))
				}
				out := invocation{args: args, env: tc.env}.run(t)
				out.Failed(t, ExitUsage, tc.says...)
				require.NotContains(t, out.Stderr, "hunter2")
			}
		})
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	file := clitest.WriteFile(t, "leafd.yaml", "lisen: a\nnode: a/b\nlease: x\n")
	out := invocation{
		args: []string{"serve", "--config", file, "--max-batch=0", "--layout=1+1"},
		env:  map[string]string{"LEAFD_LOG_LEVEL": "loud"},
	}.run(t)
	out.Failed(t, ExitUsage, "6 bad settings:", `unknown key "lisen"`, "node is", "--max-batch", "--layout", "LEAFD_LOG_LEVEL", "lease is")
	// What depends on a bad setting isn't another mistake.
	require.NotContains(t, out.Stderr, "clock-threshold")
	require.Equal(t, 7, strings.Count(out.Stderr, "\n"))
}

func TestFileForms(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, file string }{
		{"empty", ""},
		{"only comments", "# nothing\n"},
		{"a marked document", "---\ndrain-delay: 0s\n"},
		{"a marked document after a comment", "# leafd\n---\nmodes: [snowflake, segment]\n"},
		{"zero needs no unit", "drain-delay: 0\n"},
		{"a number in quotes", "max-batch: \"10000\"\n"},
		{"windows line ends", "max-batch: 10000\r\nnode: \"\"\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, captured(t, invocation{}), captured(t, invocation{args: []string{"--config", clitest.WriteFile(t, "leafd.yaml", tc.file)}}))
		})
	}
}
