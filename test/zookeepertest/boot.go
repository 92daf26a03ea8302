package zookeepertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leafd/leafd/test/proctest"
)

// Main classes of ZooKeeper.
const (
	standaloneMain = "org.apache.zookeeper.server.ZooKeeperServerMain"
	quorumMain     = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
)

// launch starts s, a server on its own, on a port, 0 for one that is free, with lines of configuration besides the usual ones.
func launch(s *Server, port int, lines ...string) (*Server, error) {
	s.main = standaloneMain
	err := s.prepare(port, lines...)
	if err == nil {
		err = s.boot()
	}
	if err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// prepare makes the directory and the configuration of a server.
func (s *Server) prepare(port int, lines ...string) (err error) {
	if s.Server, err = proctest.NewServer("zookeepertest", port); err != nil {
		return err
	}
	return s.configure(lines...)
}

// configure writes the server's configuration. Session timeouts from 500 ms to
// 40 s are granted as asked for. Nothing is preallocated and nothing purged.
func (s *Server) configure(lines ...string) error {
	lines = append([]string{
		"tickTime=500",
		"minSessionTimeout=500",
		"maxSessionTimeout=40000",
		"dataDir=" + s.data(),
		"clientPort=" + strconv.Itoa(s.Port),
		"clientPortAddress=127.0.0.1",
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
	}, lines...)
	if err := os.MkdirAll(s.data(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// boot starts the server and waits until it serves.
func (s *Server) boot() error {
	if err := s.spawn(); err != nil {
		return err
	}
	return s.Await(s.serves)
}

// spawn starts the server's process.
func (s *Server) spawn() error {
	java, err := exec.LookPath("java")
	if err != nil {
		return fmt.Errorf("zookeepertest: java is not installed: %s", advice)
	}
	path, err := classPath(s.securePort != 0)
	if err != nil {
		return err
	}
	cmd := exec.Command(java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m",
		"-Djava.io.tmpdir="+s.Dir, "-XX:-UsePerfData", "-Dzookeeper.jmx.log4j.disable=true",
		"-Dzookeeper.preAllocSize=64", // KiB of log made at once
		"-cp", path, s.main, s.config())
	if err := s.skewed(cmd); err != nil {
		return err
	}
	return s.Launch(cmd)
}

// serves tells whether it is this server, and not another one on a port that was
// free a moment ago, which answers, that it has a quorum (ruok is answered without
// one), and takes connections on its TLS port, if any.
func (s *Server) serves(ctx context.Context) error {
	conf, err := s.ask(ctx, "conf")
	if err != nil {
		return err
	}
	if !strings.Contains(conf, "dataDir="+s.data()+string(filepath.Separator)) {
		return fmt.Errorf("the server on %s is not ours: %s", s.Addr(), conf)
	}
	if _, err = s.mode(ctx); err != nil || s.securePort == 0 {
		return err
	}
	secure, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.securePort))) // it is bound later
	if err != nil {
		return err
	}
	return secure.Close()
}

// mode returns standalone, leader or follower; an error from a server that
// doesn't serve.
func (s *Server) mode(ctx context.Context) (string, error) {
	answer, err := s.ask(ctx, "srvr")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(answer, "\nMode: ")
	if !ok {
		return "", fmt.Errorf("zookeepertest: %s answered: %s", s.Addr(), answer)
	}
	mode, _, _ := strings.Cut(rest, "\n")
	return mode, nil
}

// ask sends one of ZooKeeper's four-letter words.
func (s *Server) ask(ctx context.Context, word string) (string, error) {
	// A server that is about to start takes connections, and may forget them.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // all was read
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(word)); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

const advice = "run make deps, or install ZooKeeper's Java archives and a Java runtime " +
	"(apt-get install libzookeeper-java default-jre-headless), or set ZOOKEEPER_LIB to the directory lib of a ZooKeeper release"

// classPath returns what the server is started with: all of the directory
// ZOOKEEPER_LIB, or what Debian installs; with TLS that needs archives of netty's
// which its manifest doesn't name.
func classPath(secure bool) (string, error) {
	if directory := os.Getenv("ZOOKEEPER_LIB"); directory != "" {
		return filepath.Join(directory, "*"), nil // Java's own pattern
	}
	archives := []string{"zookeeper.jar", "slf4j-simple.jar"}
	if secure {
		archives = append(archives, "netty-codec.jar", "netty-resolver.jar", "netty-transport-native-unix-common.jar")
	}
	paths := make([]string, len(archives))
	for i, name := range archives {
		paths[i] = filepath.Join("/usr/share/java", name)
		if _, err := os.Stat(paths[i]); err != nil {
			return "", fmt.Errorf("zookeepertest: %w: %s", err, advice)
		}
	}
	return strings.Join(paths, string(filepath.ListSeparator)), nil
}

func (s *Server) data() string     { return filepath.Join(s.Dir, "data") }
func (s *Server) database() string { return filepath.Join(s.data(), "version-2") }
func (s *Server) kept() string     { return filepath.Join(s.Dir, "kept") }
func (s *Server) config() string   { return filepath.Join(s.Dir, "zoo.cfg") }
