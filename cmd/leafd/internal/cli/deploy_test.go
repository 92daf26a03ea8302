package cli

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/leafd/leafd/cmd/leafd/internal/daemon"
	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/server/conn"
)

// These tests hold what deploy/kubernetes and deploy/container/compose.yaml say of leafd to
// what leafd takes; `make check-deploy` holds the rest of them to the types of Kubernetes and Compose.
const deployPath = "../../../../deploy/"

// documents returns the documents of a YAML file under deploy; T's fields match the keys
// without regard to upper and lower case.
func documents[T any](t *testing.T, name string) []T {
	t.Helper()
	f, err := os.Open(deployPath + name)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // nothing was written
	var all []T
	for decoder := yaml.NewDecoder(f); ; {
		var document map[string]any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			require.NotEmpty(t, all)
			return all
		}
		require.NoError(t, err)
		text, err := json.Marshal(document)
		require.NoError(t, err)
		var v T
		require.NoError(t, json.Unmarshal(text, &v))
		all = append(all, v)
	}
}

type container struct {
	Args []string
	Env  []struct {
		Name      string
		ValueFrom struct{ SecretKeyRef struct{ Name, Key string } }
	}
	Ports        []struct{ ContainerPort int }
	Resources    struct{ Limits struct{ Memory string } }
	VolumeMounts []struct{ Name, MountPath string }
}

type workload struct {
	Spec struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int
				Containers                    []container
			}
		}
	}
}

// mounted returns a run of leafd in the container, with the settings that its pods share as they
// are mounted, but for their directory.
func (c container) mounted(t *testing.T) invocation {
	t.Helper()
	shared := documents[struct {
		Data       map[string]string // of the ConfigMap
		StringData map[string]string // of the Secret
	}](t, "kubernetes/settings.yaml")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "zk-auth"), []byte(shared[1].StringData["zk-auth"]), 0o600))
	moved := func(text string) string { return strings.ReplaceAll(text, "/etc/leafd/", dir+"/") }
	require.NoError(t, os.WriteFile(filepath.Join(dir, "leafd.yaml"), []byte(moved(shared[0].Data["leafd.yaml"])), 0o600))

	run := invocation{env: map[string]string{}}
	for _, e := range c.Env {
		if key := e.ValueFrom.SecretKeyRef.Key; key != "" {
			require.NotEmpty(t, shared[1].StringData[key])
			run.env[e.Name] = shared[1].StringData[key]
		}
	}
	for _, arg := range c.Args {
		run.args = append(run.args, moved(strings.NewReplacer("$(POD_NAME)", "leafd-0", "$(POD_IP)", "10.1.2.3").Replace(arg)))
	}
	return run
}

// stop is the longest that a clean stop takes.
func stop(cfg settings.Config) time.Duration {
	return cfg.HTTP.DrainDelay + daemon.ShutdownTimeout + 5*time.Second
}

func TestPodsServe(t *testing.T) {
	t.Parallel()
	for name, volume := range map[string]bool{"statefulset.yaml": true, "deployment.yaml": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := documents[workload](t, "kubernetes/"+name)[0].Spec.Template.Spec
			leafd := pod.Containers[0]
			run := leafd.mounted(t)
			require.Equal(t, "serve", run.args[0])
			run.args = run.args[1:]
			cfg := captured(t, run)
			require.Empty(t, cfg.Warnings)
			require.Equal(t, "leafd-0", cfg.Node)
			require.Equal(t, "10.1.2.3:8080", cfg.Listen.Advertise)
			require.Equal(t, ":8080", cfg.Listen.Address)
			require.Equal(t, 8080, leafd.Ports[0].ContainerPort)
			require.Equal(t, ":8081", cfg.Listen.Admin)
			require.Equal(t, 8081, leafd.Ports[1].ContainerPort)
			memory, err := strconv.Atoi(strings.TrimSuffix(leafd.Resources.Limits.Memory, "Mi"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, memory<<20/2/conn.Bytes, 8192, "connections that half of it holds, which is their limit")
			require.Equal(t, "data", leafd.VolumeMounts[0].Name)
			require.Equal(t, leafd.VolumeMounts[0].MountPath, filepath.Dir(cfg.DataDir), "a directory of leafd's own on the volume")
			require.NotEmpty(t, cfg.ZooKeeper.Servers)
			require.NotNil(t, cfg.ZooKeeper.Auth)
			require.NotEmpty(t, cfg.Segment.MySQL)
			require.Greater(t, time.Duration(pod.TerminationGracePeriodSeconds)*time.Second, stop(cfg))
			require.Equal(t, !volume, cfg.ZooKeeper.ReleaseOnStop)
			if volume {
				require.Equal(t, 168*time.Hour, cfg.ZooKeeper.Lease)
			} else {
				require.Equal(t, 6*time.Hour, cfg.ZooKeeper.Lease)
			}
		})
	}
}

// The job's command is complete: all that it lacks here is ZooKeeper.
func TestJobMakesTheCluster(t *testing.T) {
	t.Parallel()
	run := documents[workload](t, "kubernetes/cluster-init.yaml")[0].Spec.Template.Spec.Containers[0].mounted(t)
	require.Equal(t, []string{"cluster", "init", "--new", "--yes"}, run.args[:4])
	run.args = append(run.args, "--zk=127.0.0.1:1", "--timeout=100ms")
	run.run(t).Failed(t, ExitFailure, "127.0.0.1:1")
}

func TestComposeServes(t *testing.T) {
	t.Parallel()
	type service struct {
		Command         []string
		Environment     map[string]string
		StopGracePeriod string `json:"stop_grace_period"`
		Healthcheck     struct{ Test []string }
	}
	services := documents[struct{ Services map[string]service }](t, "container/compose.yaml")[0].Services
	for _, name := range []string{"leafd1", "leafd2", "leafd3"} {
		s := services[name]
		require.Equal(t, "serve", s.Command[0])
		s.Environment["LEAFD_MYSQL"] = strings.ReplaceAll(s.Environment["LEAFD_MYSQL"], "${LEAFD_PASSWORD:-try-things-out}", "secret")
		cfg := captured(t, invocation{args: s.Command[1:], env: s.Environment})
		require.Equal(t, name, cfg.Node)
		require.Equal(t, ":8080", cfg.Listen.Address)
		require.Equal(t, "leafd:secret@tcp(mariadb:3306)/leaf", cfg.Segment.MySQL)
		grace, err := time.ParseDuration(s.StopGracePeriod)
		require.NoError(t, err)
		require.Greater(t, grace, stop(cfg))
		require.Equal(t, []string{"CMD", "/leafd", "id", "next"}, s.Healthcheck.Test)
	}
	init := services["init"].Command
	leafd(t, append(init, "--zk=127.0.0.1:1", "--timeout=100ms")...).Failed(t, ExitFailure, "127.0.0.1:1")
}
