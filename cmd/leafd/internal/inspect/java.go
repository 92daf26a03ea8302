package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/worker"
	"github.com/leafd/leafd/zkreg"
)

// JavaLeaf is a Java Leaf as its host has it.
type JavaLeaf struct {
	Address string // ip and leaf.snowflake.port: the name of its entry
	HTTP    string // ip:port at which it answers; the same as Address mostly
	Name    string // leaf.name
	TmpDir  string // its java.io.tmpdir
}

// NewJavaLeaf returns the Java Leaf of an entry under foreverPath, which Java Leafs call
// /snowflake/NAME/forever. http is empty where it answers at address.
func NewJavaLeaf(address, http, foreverPath, tmpDir string) (JavaLeaf, error) {
	if http == "" {
		http = address
	}
	for _, each := range []string{address, http} {
		if a, err := netip.ParseAddrPort(each); err != nil || !a.Addr().Is4() {
			return JavaLeaf{}, settings.Usagef("%q is no address of a Java Leaf: want ip:port, IPv4, as its entry is called", each)
		}
	}
	name := path.Base(path.Dir(foreverPath))
	if foreverPath != "/snowflake/"+name+"/forever" {
		return JavaLeaf{}, settings.Usagef("--zk-forever-path is %q: want where the Java Leafs have their entries, /snowflake/NAME/forever", foreverPath)
	}
	return JavaLeaf{address, http, name, tmpDir}, nil
}

// Here tells that the Java Leaf's address is one of this machine.
func (j JavaLeaf) Here(ctx context.Context) bool {
	ip, _, _ := net.SplitHostPort(j.Address) // NewJavaLeaf saw to it
	var conf net.ListenConfig
	listener, err := conf.Listen(ctx, "tcp4", net.JoinHostPort(ip, "0"))
	return err == nil && listener.Close() == nil
}

// Stopped returns worker.ErrHeld where anything answers at its address.
func (j JavaLeaf) Stopped(ctx context.Context) error {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", j.HTTP)
	if err != nil {
		return nil //nolint:nilerr // nobody is what we want
	}
	return errors.Join(fmt.Errorf("%w: something answers at %s: stop it, or say with --java-http where the Java Leaf answered", worker.ErrHeld, j.HTTP), conn.Close())
}

// Files are where the Java Leaf may have kept its worker ID, of which Left are there: early
// releases leave a slash out.
func (j JavaLeaf) Files() []string {
	_, port, _ := net.SplitHostPort(j.Address) // NewJavaLeaf saw to it
	rest := filepath.Join("leafconf", port, "workerID.properties")
	return []string{filepath.Join(j.TmpDir, j.Name, rest), filepath.Join(filepath.Clean(j.TmpDir)+j.Name, rest)}
}

// Left are those of its Files that are there.
func (j JavaLeaf) Left() ([]string, error) {
	var left []string
	for _, file := range j.Files() {
		switch _, err := os.Lstat(file); {
		case err == nil:
			left = append(left, file)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the Java Leaf's file: %w", err)
		}
	}
	return left, nil
}

// WithJavaMove finds the entry of a Java Leaf and calls fn with it, within the time-out.
func (c Cluster) WithJavaMove(ctx context.Context, address string, fn func(ctx context.Context, move *zkreg.JavaMove) error) error {
	return c.WithDirectory(ctx, func(ctx context.Context, dir *zkreg.Directory) error {
		move, err := dir.FindJava(ctx, address)
		if err != nil {
			return err
		}
		return fn(ctx, move)
	})
}
