package cli

import (
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
		name, setting              string
		flag, env, file            string
		fromFlag, fromEnv, inFile  any
		byDefault                  any
		read                       func(settings.Config) any
		printedFlag, printedByFile string
	}{
		{
			name: "text", setting: "node", flag: "by-flag", env: "by-env", file: "by-file",
			fromFlag: "by-flag", fromEnv: "by-env", inFile: "by-file", byDefault: "127.0.0.1:8080",
			read: func(c settings.Config) any { return c.Node }, printedFlag: "by-flag", printedByFile: "by-file",
		},
		{
			name: "number", setting: "worker-id", flag: "7", env: "8", file: "9",
			fromFlag: int64(7), fromEnv: int64(8), inFile: int64(9), byDefault: int64(0),
			read: func(c settings.Config) any { return c.Snowflake.WorkerID }, printedFlag: "7", printedByFile: "9",
		},
		{
			name: "number given as its default", setting: "max-batch", flag: "10000", env: "8", file: "9",
			fromFlag: 10000, fromEnv: 8, inFile: 9, byDefault: 10000,
			read: func(c settings.Config) any { return c.Limits.MaxBatch }, printedFlag: "10000", printedByFile: "9",
		},
		{
			name: "large number", setting: "epoch", flag: "1288834974658", env: "1288834974659", file: "1288834974661",
			fromFlag: "1288834974658", fromEnv: "1288834974659", inFile: "1288834974661", byDefault: "1288834974657",
			read:        func(c settings.Config) any { return Decimal(int64(c.Snowflake.Layout.Epoch)) },
			printedFlag: "1288834974658", printedByFile: "1288834974661",
		},
		{
			name: "duration", setting: "drain-delay", flag: "1s", env: "2s", file: "1500ms",
			fromFlag: time.Second, fromEnv: 2 * time.Second, inFile: 1500 * time.Millisecond, byDefault: time.Duration(0),
			read: func(c settings.Config) any { return c.HTTP.DrainDelay }, printedFlag: "1s", printedByFile: "1.5s",
		},
		{
			name: "list", setting: "modes", flag: "snowflake", env: "segment", file: "[segment, snowflake]",
			fromFlag: [2]bool{true, false}, fromEnv: [2]bool{false, true}, inFile: [2]bool{true, true}, byDefault: [2]bool{true, true},
			read:        func(c settings.Config) any { return [2]bool{c.Snowflake.On, c.Segment.On} },
			printedFlag: "snowflake", printedByFile: "segment,snowflake",
		},
		{
			name: "truth", setting: "release-on-stop", flag: "true", env: "false", file: "true",
			fromFlag: true, fromEnv: false, inFile: true, byDefault: false,
			read: func(c settings.Config) any { return c.ZooKeeper.ReleaseOnStop }, printedFlag: "true", printedByFile: "true",
		},
		{
			name: "choice", setting: "log-level", flag: "warn", env: "error", file: "debug",
			fromFlag: "warn", fromEnv: "error", inFile: "debug", byDefault: "info",
			read: func(c settings.Config) any { return c.LogLevel }, printedFlag: "warn", printedByFile: "debug",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			file := []string{"--config", clitest.WriteFile(t, "leafd.yaml", tc.setting+": "+tc.file+"\n")}
			flag := append([]string{"--" + tc.setting + "=" + tc.flag}, file...)
			env := map[string]string{settings.EnvName(tc.setting): tc.env}
			for _, step := range []struct {
				args   []string
				env    map[string]string
				want   any
				source string
				shown  string
			}{
				{flag, env, tc.fromFlag, "flag", tc.printedFlag},
				{file, env, tc.fromEnv, "env", ""},
				{file, map[string]string{settings.EnvName(tc.setting): ""}, tc.inFile, "file", tc.printedByFile},
				{file, nil, tc.inFile, "file", tc.printedByFile},
				{nil, nil, tc.byDefault, "default", ""},
			} {
				require.Equal(t, step.want, tc.read(captured(t, invocation{args: step.args, env: step.env})), step.source)

				printed := invocation{args: append([]string{"config"}, step.args...), env: step.env}.run(t).OK(t)
				for line := range strings.Lines(printed) {
					if fields := strings.Fields(line); fields[0] == tc.setting {
						require.Equal(t, step.source, fields[2])
						if step.shown != "" {
							require.Equal(t, step.shown, fields[1])
						}
					}
				}
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
		{name: "text for truth", file: `release-on-stop: "yes"`, says: []string{`release-on-stop is "yes": want true or false`}},
		{name: "unknown key, unlike any", file: "zookeeper-root: 5", says: []string{`unknown key "zookeeper-root"`}},
		{name: "the file names a file", file: "config: x", says: []string{`unknown key "config"`}},
		{name: "key with a level", file: "listen:\n  host: a", says: []string{"leafd.yaml:2: listen is map[host:a]: want one value"}},
		{name: "text for a number", file: "worker-id: seven", says: []string{`leafd.yaml:1: worker-id is "seven": want a whole number`}},
		{name: "fraction", file: "worker-id: 1.5", says: []string{`worker-id is "1.5"`}},
		{name: "number beyond int64", file: "epoch: 18446744073709551615", says: []string{`epoch is "18446744073709551615"`}},
		{name: "nothing for text", file: "node:", says: []string{"node is <nil>: want one value"}},
		{name: "truth for text", file: "log-level: true", says: []string{`log-level is "true"`}},
		{name: "list for text", file: "node: [a]", says: []string{"node is [a]"}},
		{name: "number without unit", file: "drain-delay: 5", says: []string{`drain-delay is "5": want a duration with its unit`}},
		{name: "number in a list", file: "modes: [snowflake, 5]", says: []string{"modes is [snowflake 5]"}},
		{name: "empty list", file: "modes: []", says: []string{"modes is []"}},
		{name: "not a mapping", file: "hunter2-hunter2", says: []string{"leafd.yaml: want lines of the form `name: value`"}},
		{name: "no YAML", file: "node: [", says: []string{"leafd.yaml: yaml: line 1"}},
		{name: "the same key twice", file: "node: a\nnode: b", says: []string{`"node" already defined`}},
		{name: "second document", file: "node: a\n---\nlisten: b", says: []string{"line 2 begins a second YAML document"}},

		{name: "flag", args: []string{"--worker-id", "x"}, says: []string{`--worker-id is "x": want a whole number, 0 or more`}},
		{name: "variable", env: map[string]string{"LEAFD_MAX_BATCH": "0"}, says: []string{`LEAFD_MAX_BATCH is "0": want a whole number, 1 to 1000000`}},
		{name: "batch too large", args: []string{"--max-batch=1000001"}, says: []string{"1 to 1000000"}},
		{name: "negative", args: []string{"--epoch=-1"}, says: []string{`--epoch is "-1"`}},
		{name: "beyond int64", args: []string{"--epoch=9223372036854775808"}, says: []string{"--epoch is"}},
		{name: "epoch too late", args: []string{"--epoch=9223372036854775807"}, says: []string{"--epoch is \"9223372036854775807\": bad layout"}},
		{name: "layout", args: []string{"--layout=41+10+13"}, says: []string{`--layout is "41+10+13": bad layout`, "64 bits"}},
		{name: "worker beyond the layout", args: []string{"--worker-id=1024"}, says: []string{"--worker-id is \"1024\": want 0 to 1023 with the layout 41+10+12"}},
		{name: "worker beyond another layout", args: []string{"--worker-id=32", "--layout=41+5+5+12"}, says: []string{"want 0 to 31"}},
		{name: "datacenter without one", args: []string{"--datacenter=1"}, says: []string{"--datacenter is \"1\": want 0 to 0"}},
		{name: "mode", args: []string{"--modes=uuid"}, says: []string{`--modes is "uuid": want one or more of snowflake, segment`}},
		{name: "no mode", args: []string{"--modes="}, says: []string{`--modes is ""`}},
		{name: "segments of a cluster without a database", args: []string{"--modes=segment", "--zk=127.0.0.1:1"}, says: []string{"want mysql with zk"}},
		{name: "several hosts alone", args: []string{"--mysql=u@tcp(a:1,b:1)/l"}, says: []string{"want zk with several hosts"}},
		{name: "several hosts, unguarded", args: []string{"--mysql=u@tcp(a:1,b:1)/l", "--zk=127.0.0.1:1", "--segment-guard=prefer"}, says: []string{"want require with several hosts"}},
		{name: "mode twice", args: []string{"--modes=segment,segment"}, says: []string{"each once"}},
		{name: "duration", args: []string{"--drain-delay=soon"}, says: []string{`--drain-delay is "soon": want a duration`}},
		{name: "duration too short", args: []string{"--startup-timeout=0s"}, says: []string{`want 1s to 1h`}},
		{name: "duration too long", args: []string{"--startup-timeout=2h"}, says: []string{`want 1s to 1h`}},
		{name: "a flag that is a constant now", args: []string{"--ceiling-lead=7s"}, says: []string{"unknown flag: --ceiling-lead"}},
		{name: "start shorter than lead", args: []string{"--startup-timeout=6s"}, says: []string{"--startup-timeout is \"6s\": want more than 6s, for which a start after a crash may wait"}},
		{name: "level", args: []string{"--log-level=loud"}, says: []string{`want one of trace, debug, info, warn, error`}},
		{name: "listen without port", args: []string{"--listen=127.0.0.1"}, says: []string{"--listen is \"127.0.0.1\": want host:port"}},
		{name: "listen on a named port", args: []string{"--listen=127.0.0.1:http"}, says: []string{"want a port"}},
		{name: "listen beyond the ports", args: []string{"--listen=127.0.0.1:65536"}, says: []string{"want a port"}},
		{name: "advertise everything", args: []string{"--advertise=0.0.0.0:80"}, says: []string{"want the address of one machine"}},
		{name: "advertise a name", args: []string{"--advertise=example:80"}, says: []string{"want ip:port"}},
		{name: "advertise port 0", args: []string{"--advertise=10.0.0.5:0"}, says: []string{"want a port from 1"}},
		{name: "node with a slash", args: []string{"--node=a/b"}, says: []string{"--node is \"a/b\"", "no slash"}},
		{name: "node with a space", args: []string{"--node=a b"}, says: []string{"no space"}},
		{name: "node that is a path", args: []string{"--node=.."}, says: []string{"want a name"}},
		{name: "node too long", args: []string{"--node=" + strings.Repeat("n", 201)}, says: []string{"at most 200"}},
		{name: "no directory", args: []string{"--data-dir="}, says: []string{"--data-dir is \"\": want a directory"}},
		{name: "quotes around a DSN", file: `mysql: "'leaf:hunter2@tcp(db)/leaf'"`, says: []string{"leafd.yaml:1: mysql is (hidden): want it without the quotes around it"}},
		{name: "quotes around a number", env: map[string]string{"LEAFD_MAX_BATCH": `"5"`}, says: []string{`LEAFD_MAX_BATCH is "\"5\"": want it without the quotes`}},
		{name: "a line end in a DSN", env: map[string]string{"LEAFD_MYSQL": "leaf:hunter2@tcp(db)/leaf\n?tls=true"}, says: []string{"LEAFD_MYSQL is (hidden): want no line end"}},
		{name: "a tab in an address", args: []string{"--zk=a:1,\tb:1"}, says: []string{"--zk is \"a:1,\\tb:1\": want no line end"}},
		{name: "quotes around the file's name", args: []string{"--config='leafd.yaml'"}, says: []string{"config file 'leafd.yaml': want it without the quotes"}},
		{name: "what depends on a bad DSN", args: []string{"--mysql='x'", "--mysql-password-file=/none", "--zk=127.0.0.1:1", "--modes=segment"}, says: []string{"2 bad settings", "--mysql is", "--mysql-password-file is"}},
		{name: "NUL in a path", env: map[string]string{"LEAFD_DATA_DIR": "a\x00b"}, says: []string{"NUL"}},
		{name: "no file", args: []string{"--config=/nonexistent/leafd.yaml"}, says: []string{"config file /nonexistent/leafd.yaml: no such file"}},
		{name: "a directory for a file", args: []string{"--config=/"}, says: []string{"config file /: want a regular file, not a directory"}},
		{name: "webhook that is no URL", args: []string{"--alarm-webhook=hunter2"}, says: []string{"--alarm-webhook is (hidden): want an http or https URL with a host"}},
		{name: "webhook without a host", args: []string{"--alarm-webhook=http:///hunter2"}, says: []string{"http or https URL"}},
		{name: "webhook of another scheme", args: []string{"--alarm-webhook=ftp://hunter2.example/"}, says: []string{"http or https URL"}},
		{name: "webhook with a bad port", args: []string{"--alarm-webhook=http://hunter2.example:x/"}, says: []string{"http or https URL"}},
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
