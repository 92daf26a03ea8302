package mariadbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/leafd/leafd/test/proctest"
)

// mysqldVariable names a mysqld of MySQL to run instead of MariaDB.
const mysqldVariable = "LEAFDTEST_MYSQLD"

// launch makes a server with a fresh data directory and starts it on the port, 0 for one
// that is free, with more arguments than each server has.
func launch(port int, more ...string) (_ *Server, err error) {
	s := &Server{more: more, mysqld: os.Getenv(mysqldVariable)}
	if s.Server, err = proctest.NewServer("mariadbtest", port); err != nil {
		return nil, err
	}
	s.root, err = open(s.DSN("") + "?timeout=5s&readTimeout=30s&writeTimeout=30s")
	if err == nil {
		err = s.install()
	}
	if err == nil {
		err = s.boot()
	}
	if err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// install makes the data directory.
func (s *Server) install() error {
	install, err := find("mariadb-install-db", "mysql_install_db")
	args := append(s.common(), "--auth-root-authentication-method=normal", "--skip-test-db")
	if s.mysqld != "" {
		// Its root may come by the socket alone.
		sql := filepath.Join(s.Dir, "root.sql")
		err = os.WriteFile(sql, []byte("CREATE USER root@'127.0.0.1'; GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n"), 0o600)
		install, args = s.mysqld, append(s.common(), "--initialize-insecure", "--init-file="+sql)
	}
	if err != nil {
		return err
	}
	if out, err := s.command(install, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("mariadbtest: %s: %w\n%s", install, err, out)
	}
	return nil
}

// boot starts the server and waits until it answers.
func (s *Server) boot() error {
	binary := s.mysqld
	if binary == "" {
		var err error
		if binary, err = find("mariadbd", "mysqld"); err != nil {
			return err
		}
	}
	args := append(s.common(),
		"--socket="+filepath.Join(s.Dir, "s"),
		"--pid-file="+filepath.Join(s.Dir, "pid"),
		"--log-error="+s.Log(),
		"--port="+strconv.Itoa(s.Port),
		"--bind-address=127.0.0.1",
		"--skip-networking=0",
		"--skip-name-resolve",
		"--key-buffer-size=1M",
		"--max-connections=200",
	)
	if err := s.Launch(s.command(binary, append(args, s.more...)...)); err != nil {
		return fmt.Errorf("mariadbtest: start %s: %w", binary, err)
	}
	return s.Await(s.answers)
}

// answers tells whether it is this server, and not another one on a port that
// was free a moment ago, which answers.
func (s *Server) answers(ctx context.Context) error {
	var dir string
	if err := s.root.QueryRowContext(ctx, "SELECT @@datadir").Scan(&dir); err != nil {
		return err
	}
	if filepath.Clean(dir) != s.data() {
		return fmt.Errorf("the server on %s has its data in %s", s.Addr(), dir)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// common are the arguments of both the installation and the server. Nothing is synced
// to the disk: tests kill the process, and never the machine, so that what the server
// wrote stays; and the syncs were most of the seconds in which one was made.
func (s *Server) common() []string {
	args := []string{
		"--no-defaults", "--datadir=" + s.data(), "--innodb-buffer-pool-size=16M", "--loose-innodb-log-file-size=8M",
		"--loose-debug-no-sync", "--loose-innodb-flush-method=nosync", "--skip-log-bin", "--loose-mysqlx=OFF",
	}
	if os.Geteuid() == 0 { // the server runs as root only when told so
		args = append(args, "--user=root")
	}
	return args
}

// command is of a program that has its temporary files in our directory: a server that starts
// deletes what it finds of them, also another one's.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+s.Dir), s.env...)
	return cmd
}

// find returns the path of the first of names that is installed. Servers are
// often outside the PATH of a user.
func find(names ...string) (string, error) {
	dirs := []string{
		"/usr/sbin", "/usr/libexec", "/usr/local/sbin", "/usr/local/bin", "/usr/local/libexec",
		"/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin", "/usr/local/mysql/bin",
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
		for _, dir := range dirs {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("mariadbtest: %s is not installed: run make deps, or install MariaDB "+
		"(apt-get install mariadb-server; dnf install mariadb-server; brew install mariadb)", names[0])
}
