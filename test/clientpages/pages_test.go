// Package clientpages runs the programs of docs/clients, where their languages are installed.
package clientpages

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/redis/go-redis/v9" // with which a page's program is built
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leafd/leafd/snowflake"
	"github.com/leafd/leafd/test/proctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(proctest.RemoveLeafdAfter(m)) }

// Each program takes IDs while two daemons in turn are killed with kill -9, started again, frozen
// and continued, and a third one, which waits for ZooKeeper, says that it is starting: no call
// fails, no ID comes twice, and once its home is back IDs come from there.
// What the drivers of Redis need is in LEAFDTEST_DRIVERS, by test/redisclients/run.sh.
func TestPrograms(t *testing.T) {
	binary := proctest.Leafd(t)
	drivers := os.Getenv("LEAFDTEST_DRIVERS")
	packages, err := filepath.Abs("../../client")
	require.NoError(t, err)
	javac := "javac -cp $drivers/java/lib/* -sourcepath $dir -d $dir $dir/JedisIds.java $dir/LettuceIds.java"
	for _, p := range []struct {
		name, page, heading string
		file                string // the first block below the heading; without a page what is in docs/clients/redis
		redis, driver       bool
		build, command      string
	}{
		{"python", "python.md", "# Python", "ids.py", false, false, "", "python3 $dir/ids.py"},
		{"node", "node.md", "# Node", "ids.mjs", false, false, "", "node $dir/ids.mjs"},
		{"go-redis", "go.md", "## go-redis", "main.go", true, false, "go build -o $dir/ids $dir/main.go", "$dir/ids"}, // package client has tests of its own
		{"redis-py", "", "", "", true, true, "", "$drivers/python/bin/python $dir/ids.py"},
		{"node-redis", "", "", "", true, true, "", "node $dir/node-redis.mjs"},
		{"ioredis", "", "", "", true, true, "", "node $dir/ioredis.mjs"},
		{"Jedis", "", "", "", true, true, javac, "java -cp $dir:$drivers/java/lib/* JedisIds"},
		{"Lettuce", "", "", "", true, true, javac, "java -cp $dir:$drivers/java/lib/* LettuceIds"},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel() // a daemon that was killed takes seconds to start
			dir := t.TempDir()
			expand := func(command string) []string {
				return strings.Fields(os.Expand(command, func(name string) string {
					return map[string]string{"dir": dir, "drivers": drivers}[name]
				}))
			}
			command := expand(p.command)
			if p.driver && drivers == "" {
				t.Skip("make test-redis-clients has the drivers")
			}
			if p.page == "" {
				require.NoError(t, os.CopyFS(dir, os.DirFS("../../docs/clients/redis")))
			} else {
				page, err := os.ReadFile("../../docs/clients/" + p.page)
				require.NoError(t, err)
				_, section, found := strings.Cut("\n"+string(page), "\n"+p.heading+"\n")
				require.True(t, found)
				_, section, _ = strings.Cut(section, "\n```")
				_, section, _ = strings.Cut(section, "\n")
				program, _, found := strings.Cut(section, "\n```\n")
				require.True(t, found)
				require.NoError(t, os.WriteFile(filepath.Join(dir, p.file), []byte(program+"\n"), 0o600))
			}
			modules := dir + "/node_modules" // where node looks
			if p.driver {
				require.NoError(t, os.Symlink(drivers+"/node_modules", modules))
			} else {
				require.NoError(t, os.Mkdir(modules, 0o700))
				require.NoError(t, os.Symlink(packages+"/node", modules+"/leafd"))
			}
			if p.build != "" {
				build := expand(p.build)
				out, err := exec.Command(build[0], build[1:]...).CombinedOutput()
				require.NoError(t, err, "%s", out)
			}
			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skip(err)
			}

			var configs [3]proctest.Config
			var daemons [3]*proctest.Daemon
			args := append(command[1:], fmt.Sprint(1<<30)) // until it is killed
			zookeeper := proctest.DeadAddress(t)
			for i := range daemons {
				address, err := proctest.FreeAddress()
				require.NoError(t, err)
				redis, err := proctest.FreeAddress()
				require.NoError(t, err)
				configs[i] = proctest.Config{Address: address, Command: []string{
					binary, "serve", "--listen", address, "--listen-redis", redis, "--data-dir", t.TempDir(),
				}}
				if i < 2 {
					configs[i].Command = append(configs[i].Command, "--worker-id", fmt.Sprint(i))
					daemons[i] = start(t, configs[i])
				} else { // waits for its worker ID
					configs[i].Command = append(configs[i].Command, "--zk", zookeeper, "--startup-timeout", "1h")
					daemons[i], err = proctest.StartDaemon(configs[i])
					require.NoError(t, err)
					require.NoError(t, daemons[i].AwaitListening(t.Context()))
				}
				if p.redis {
					args = append(args, redis)
				} else {
					args = append(args, daemons[i].URL)
				}
			}
			defer func() {
				for _, d := range daemons {
					require.NoError(t, d.Stop(proctest.Patience))
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], args...)
			var said strings.Builder
			cmd.Stderr = &said
			cmd.Env = append(os.Environ(), "PYTHONPATH="+packages+"/python", "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(out)
			last := make(map[int64]int64) // by worker: a caller's IDs of each grow, so that none comes twice
			next := func() (worker int64, made time.Time) {
				t.Helper()
				if !lines.Scan() {
					require.Fail(t, "a call failed", "%v %s", cmd.Wait(), &said)
				}
				id, err := strconv.ParseInt(lines.Text(), 10, 64)
				parts, invalid := snowflake.DefaultLayout().Decode(id)
				if err != nil || invalid != nil || id <= last[parts.Worker] {
					require.Fail(t, "not the next ID", "%s after %d", lines.Text(), last[parts.Worker])
				}
				last[parts.Worker] = id
				return parts.Worker, parts.Time.Time()
			}
			// take returns when a thousand IDs have come of a worker.
			take := func(worker int64) {
				t.Helper()
				for n := 0; n < 1000; {
					if by, _ := next(); by == worker {
						n++
					}
				}
			}
			restart := func(i int) {
				t.Helper()
				var err error
				daemons[i], err = proctest.StartDaemon(configs[i])
				require.NoError(t, err)
				ready := make(chan error, 1)
				go func() { ready <- daemons[i].AwaitReady(ctx) }()
				for { // node keeps what is not read
					select {
					case err := <-ready:
						require.NoError(t, err)
						return
					default:
						next()
					}
				}
			}
			require.NoError(t, daemons[0].End(syscall.SIGKILL))
			take(1)
			restart(0)
			require.NoError(t, daemons[1].End(syscall.SIGKILL))
			take(0)
			restart(1)
			home, made := next()
			for back := time.Now().Add(2 * time.Second); made.Before(back); home, made = next() { // it is left out for a second
			}
			require.NoError(t, daemons[home].Pause())
			take(1 - home)
			require.NoError(t, daemons[home].Resume())
			take(home)
			require.NoError(t, daemons[1-home].Pause())
			take(home)
			cancel()
			require.Error(t, cmd.Wait())
			require.Equal(t, "signal: killed", cmd.ProcessState.String(), "%s", &said)
		})
	}
}

func start(t *testing.T, cfg proctest.Config) *proctest.Daemon {
	t.Helper()
	d, err := proctest.StartDaemon(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), proctest.Patience)
	defer cancel()
	require.NoError(t, d.AwaitReady(ctx))
	return d
}
