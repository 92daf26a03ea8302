// Package package_test builds the packages and does with them what dpkg and rpm do on a
// machine, in an empty root of the test's own.
package package_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// top is the directory of the project.
const top = "../.."

// sbin is where dpkg finds its own programs, which users' paths lack.
const sbin = ":/usr/local/sbin:/usr/sbin:/sbin"

// run runs a command that has to succeed, and returns what it printed on standard
// output; what it said besides comes with an error.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "PATH="+os.Getenv("PATH")+sbin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s %q:\n%s%s", name, args, stdout.String(), stderr.String())
	return stdout.String()
}

// asRoot is run with the rights that dpkg needs over the files of a root.
func asRoot(t *testing.T, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		args = append([]string{"unshare", "--map-root-user"}, args...)
	}
	return run(t, args[0], args[1:]...)
}

// date is that of the commits that the tests package.
const date = "2026-11-21T10:00:00Z"

// build returns a leafd of v1.0.0 in a directory of its own.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "leafd")
	// As make has it, so that what make has built is not compiled again.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-pgo=auto", "-buildvcs=false", "-o", binary,
		"-ldflags", "-s -w -X main.version=v1.0.0 -X main.date="+date, "./cmd/leafd")
	build.Dir = top
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}

// pack makes packages and archives of a version, and returns their paths.
func pack(t *testing.T, binary, version string, formats ...string) []string {
	t.Helper()
	script, err := filepath.Abs(top + "/scripts/package.sh")
	require.NoError(t, err)
	paths := strings.Fields(run(t, script, append([]string{binary, version, date, t.TempDir()}, formats...)...))
	require.Len(t, paths, len(formats))
	return paths
}

// TestPackage makes all that leafd is passed on as, of one build.
func TestPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds leafd and its packages")
	}
	binary := build(t)
	first, second := pack(t, binary, "v1.0.0", "deb", "rpm", "archive"), pack(t, binary, "v1.0.1", "deb", "rpm")
	require.Equal(t, "leafd_1.0.0_"+debArch()+".deb", filepath.Base(first[0]))
	require.Equal(t, "leafd_1.0.0_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz", filepath.Base(first[2]))
	t.Run("deb", func(t *testing.T) { deb(t, first[0], second[0]) })
	t.Run("rpm", func(t *testing.T) { rpm(t, first[1], second[1]) })
	t.Run("archive", func(t *testing.T) { archive(t, first[2], binary) })
	t.Run("sbom", func(t *testing.T) { bill(t, binary) })
	t.Run("again", func(t *testing.T) { again(t, binary, first) })
}

// The life of the Debian package on one machine: installed, edited, upgraded, removed, purged.
func deb(t *testing.T, first, second string) {
	for line := range strings.Lines(run(t, "dpkg-deb", "-c", first)) {
		require.Equal(t, "root/root", strings.Fields(line)[1], line)
	}
	r := newRoot(t)
	r.dpkg("-i", first)
	require.Equal(t, "installed", r.state())

	files(t, r)
	conffiles := strings.Fields(r.read("var/lib/dpkg/info/leafd.conffiles"))
	slices.Sort(conffiles)
	require.Equal(t, []string{"/etc/leafd/leafd.yaml"}, conffiles)
	t.Run("notices", func(t *testing.T) { notices(t, r) })
	t.Run("settings", func(t *testing.T) { settings(t, r) })
	t.Run("units", func(t *testing.T) { units(t, r) })
	t.Run("manual", func(t *testing.T) { manual(t, r) })

	r.write("etc/leafd/leafd.yaml", edited)
	r.write("var/lib/leafd/worker.json", "{}")
	r.dpkg("-i", second)
	require.Contains(t, r.read("var/lib/dpkg/status"), "Version: 1.0.1")
	require.Equal(t, edited, r.read("etc/leafd/leafd.yaml"), "an upgrade keeps what was edited")

	require.NoError(t, os.Symlink("/usr/lib/systemd/system/leafd.service", r.path("etc/systemd/system/multi-user.target.wants/leafd.service")))
	r.dpkg("-r", "leafd")
	require.Equal(t, "config-files", r.state())
	require.NoFileExists(t, r.path("usr/bin/leafd"))
	require.NoFileExists(t, r.path("usr/lib/systemd/system/leafd.service"))
	require.Equal(t, edited, r.read("etc/leafd/leafd.yaml"), "a removal keeps settings")

	require.Contains(t, r.dpkg("-P", "leafd"), "/var/lib/leafd stays")
	require.Empty(t, r.state())
	for _, gone := range []string{"etc/leafd", "usr/share/doc/leafd", "etc/systemd/system/multi-user.target.wants/leafd.service"} {
		_, err := os.Lstat(r.path(gone))
		require.ErrorIs(t, err, fs.ErrNotExist, gone)
	}
	require.Equal(t, "{}", r.read("var/lib/leafd/worker.json"), "the recorded clock outlives the package")
}

// edited is leafd.yaml as an operator changed it.
const edited = "data-dir: /var/lib/leafd\nworker-id: 7\n"

// The life of the other package: installed, edited, upgraded, removed.
func rpm(t *testing.T, first, second string) {
	require.Contains(t, run(t, "rpm", "-K", first), "digests OK")
	r := newRoot(t)
	r.rpm("-i", first)
	require.Empty(t, r.rpm("-V", "leafd"), "each file as it was packed")
	files(t, r,
		"usr/share/zsh/vendor-completions/_leafd", "usr/share/zsh/site-functions/_leafd",
		"usr/share/doc/leafd/copyright", "usr/share/licenses/leafd/LICENSE",
		"usr/share/doc/leafd/changelog.gz", "usr/share/doc/leafd/CHANGELOG.md.gz")
	conffiles := strings.Fields(r.rpm("-q", "--configfiles", "leafd"))
	require.Equal(t, []string{"/etc/leafd/leafd.yaml"}, conffiles)

	r.write("etc/leafd/leafd.yaml", edited)
	r.write("var/lib/leafd/worker.json", "{}")
	require.NotContains(t, r.rpm("-U", second), "stays")
	require.Contains(t, r.rpm("-q", "leafd"), "leafd-1.0.1-1.")
	require.Equal(t, edited, r.read("etc/leafd/leafd.yaml"), "an upgrade keeps what was edited")

	require.Contains(t, r.rpm("-e", "leafd"), "/var/lib/leafd stays")
	require.NoFileExists(t, r.path("usr/bin/leafd"))
	require.Equal(t, edited, r.read("etc/leafd/leafd.yaml.rpmsave"))
	require.Equal(t, "{}", r.read("var/lib/leafd/worker.json"), "the recorded clock outlives the package")
}

// archive looks into the one for machines without a package manager: all is in one
// directory, and root's.
func archive(t *testing.T, path, binary string) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.True(t, z.ModTime.IsZero())
	directory := strings.TrimSuffix(filepath.Base(path), ".tar.gz") + "/"
	content := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name, inside := strings.CutPrefix(h.Name, directory)
		require.True(t, inside, h.Name)
		require.Equal(t, "root/root 0/0 "+date, fmt.Sprintf("%s/%s %d/%d %s", h.Uname, h.Gname, h.Uid, h.Gid, h.ModTime.UTC().Format(time.RFC3339)))
		wanted := int64(0o644)
		if h.Typeflag == tar.TypeDir || name == "leafd" {
			wanted = 0o755
		}
		require.Equal(t, wanted, h.Mode, name)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		content[name] = string(text)
	}
	for _, name := range []string{
		"NOTICES", "leafd.service", "leafd.socket", "leafd-redis.socket", "docs/INSTALL.md", "docs/operations/clock.md", "docs/dashboard/ready.png",
		"man1/leafd.1", "man1/leafd-serve.1", "completions/leafd", "completions/_leafd", "completions/leafd.fish",
	} {
		require.NotEmpty(t, content[name], name)
	}
	for name, source := range map[string]string{
		"leafd": binary, "LICENSE": top + "/LICENSE", "README.md": top + "/README.md", "CHANGELOG.md": top + "/CHANGELOG.md",
		"leafd.yaml": top + "/deploy/leafd.yaml", "leaf_alloc.sql": top + "/deploy/leaf_alloc.sql",
	} {
		require.Equal(t, sum(readFile(t, source)), sum(content[name]), name)
	}
}

// bill reads the software bill of materials: what the linker recorded, and nothing else.
func bill(t *testing.T, binary string) {
	text := run(t, "go", "run", top+"/scripts/sbom", binary, "v1.0.0", date)
	doc, err := json.Read(strings.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, spdxlib.ValidateDocument(doc))
	require.Equal(t, date, doc.CreationInfo.Created)
	described, err := spdxlib.GetDescribedPackageIDs(doc)
	require.NoError(t, err)
	require.Equal(t, []common.ElementID{"Package-leafd"}, described)

	info, err := buildinfo.ReadFile(binary)
	require.NoError(t, err)
	want := []string{"pkg:golang/github.com/leafd/leafd@v1.0.0", "pkg:golang/stdlib@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	var got []string
	for _, p := range doc.Packages {
		got = append(got, p.PackageExternalReferences[0].Locator)
	}
	require.Equal(t, want, got)
	require.Len(t, doc.Relationships, len(want))
	require.Equal(t, []common.Checksum{{Algorithm: common.SHA256, Value: sum(readFile(t, binary))}}, doc.Packages[0].PackageChecksums)
}

func sum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// again packs the same build as another user would, elsewhere and later.
func again(t *testing.T, binary string, first []string) {
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("TMPDIR", t.TempDir())
	copied := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(copied, []byte(readFile(t, binary)), 0o700))
	umask := syscall.Umask(0o077)
	defer syscall.Umask(umask)
	for i, path := range pack(t, copied, "v1.0.0", "deb", "rpm", "archive") {
		require.Equal(t, filepath.Base(first[i]), filepath.Base(path))
		require.Equal(t, sum(readFile(t, first[i])), sum(readFile(t, path)), filepath.Base(path))
	}
}

func debArch() string {
	if name, differs := map[string]string{"arm": "armhf", "386": "i386", "ppc64le": "ppc64el"}[runtime.GOARCH]; differs {
		return name
	}
	return runtime.GOARCH
}

// files has the pairs of names that differ from those of the Debian package.
func files(t *testing.T, r *root, differ ...string) {
	renamed := map[string]string{}
	for pair := range slices.Chunk(differ, 2) {
		renamed[pair[0]] = pair[1]
	}
	for name, mode := range map[string]fs.FileMode{
		"usr/bin/leafd":                                  0o755,
		"usr/lib/systemd/system/leafd.service":           0o644,
		"usr/lib/systemd/system/leafd.socket":            0o644,
		"usr/lib/systemd/system/leafd-redis.socket":      0o644,
		"etc/leafd/leafd.yaml":                           0o644,
		"usr/share/man/man1/leafd.1.gz":                  0o644,
		"usr/share/man/man1/leafd-serve.1.gz":            0o644,
		"usr/share/bash-completion/completions/leafd":    0o644,
		"usr/share/zsh/vendor-completions/_leafd":        0o644,
		"usr/share/fish/vendor_completions.d/leafd.fish": 0o644,
		"usr/share/doc/leafd/copyright":                  0o644,
		"usr/share/doc/leafd/changelog.gz":               0o644,
		"usr/share/doc/leafd/INSTALL.md.gz":              0o644,
		"usr/share/doc/leafd/operations/clock.md.gz":     0o644,
		"usr/share/doc/leafd/explained/time.md.gz":       0o644,
		"usr/share/doc/leafd/examples/leaf_alloc.sql":    0o644,
	} {
		info, err := os.Stat(r.path(cmp.Or(renamed[name], name)))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), name)
		require.Positive(t, info.Size(), name)
	}
	run(t, "bash", "-n", r.path("usr/share/bash-completion/completions/leafd"))
	require.Contains(t, r.leafd("version"), "v1.0.0")
}

// Each module that is linked in is named with its licence, and so is Go's library.
func notices(t *testing.T, r *root) {
	text := unpacked(t, r.path("usr/share/doc/leafd/NOTICES.gz"))
	info, err := buildinfo.ReadFile(r.path("usr/bin/leafd"))
	require.NoError(t, err)
	require.Greater(t, len(info.Deps), 30)
	require.Regexp(t, `(?m)^Go `+regexp.QuoteMeta(info.GoVersion)+`\nhttps://\S+\n-- LICENSE\n\nCopyright 2009 The Go Authors`, text)
	for _, module := range info.Deps {
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(module.Path+" "+module.Version)+`\nhttps://\S+\n-- \S+\n\n(.*\n){10}`, text)
	}
	require.Contains(t, text, "Mozilla Public License Version 2.0")
	require.Contains(t, text, "Redistributions in binary form must reproduce the above copyright")
}

// The settings are the sample's, but for the data directory, and leafd takes them.
func settings(t *testing.T, r *root) {
	sample := readFile(t, top+"/deploy/leafd.yaml")
	want := strings.Replace(sample, "data-dir: leafd-data", "data-dir: /var/lib/leafd", 1)
	require.Contains(t, sample, "data-dir: leafd-data\n")
	require.Equal(t, want, r.read("etc/leafd/leafd.yaml"), "what is installed")
	require.Regexp(t, `(?m)^ *data-dir +/var/lib/leafd +file`, r.leafd("config"), "as every command has them")
}

// What systemd reads has no mistake, and the sandbox is tight. verify tells of mistakes
// by what it prints, not by its exit code.
func units(t *testing.T, r *root) {
	const folder = "usr/lib/systemd/system"
	for _, target := range []string{
		"basic", "multi-user", "network-online", "network", "shutdown", "sockets", "sysinit", "time-sync", "time-set",
	} {
		r.write(folder+"/"+target+".target", "[Unit]\nDescription="+target+"\n")
	}
	verify := func(units ...string) string {
		cmd := exec.CommandContext(t.Context(), "systemd-analyze",
			append([]string{"verify", "--man=no", "--root=" + r.dir}, units...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		require.True(t, err == nil || len(out) > 0, "%v", err)
		return string(out)
	}
	require.Empty(t, verify("leafd.service", "leafd.socket", "leafd-redis.socket"))

	unit := r.read(folder + "/leafd.service")
	r.write(folder+"/mistaken.service", strings.Replace(unit, "[Install]", "ProtectClocks=yes\n[Install]", 1))
	require.Contains(t, verify("mistaken.service"), "ProtectClocks", "a mistake is seen")

	path := filepath.Join(t.TempDir(), "leafd.service")
	require.NoError(t, os.WriteFile(path, []byte(unit), 0o600))
	run(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15", path) // tenths
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(unit, "CapabilityBoundingSet=\n", "", 1)), 0o600))
	require.Error(t, exec.CommandContext(t.Context(), "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15", path).Run(),
		"a hole is seen")
}

// unpacked returns the content of a file that gzip has packed.
func unpacked(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return string(text)
}

// Every page renders without a word from groff, and says what its command is.
func manual(t *testing.T, r *root) {
	var all bytes.Buffer
	pages, err := filepath.Glob(r.path("usr/share/man/man1/*.gz"))
	require.NoError(t, err)
	require.Greater(t, len(pages), 10)
	for _, page := range pages {
		text := unpacked(t, page)
		require.Contains(t, text, ".SH NAME\n", page)
		all.WriteString(text)
	}
	groff := exec.CommandContext(t.Context(), "groff", "-K", "utf8", "-man", "-Tutf8", "-ww", "-z")
	groff.Stdin = &all
	out, err := groff.CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(out))
}

// On a machine that systemd runs, which the test can't be, the scripts say what they
// ought to: nothing is started that wasn't configured.
func TestScriptsTellSystemd(t *testing.T) {
	if testing.Short() {
		t.Skip("needs dpkg's rights")
	}
	r := newRoot(t)
	require.NoError(t, os.MkdirAll(r.path("run/systemd/system"), 0o755))
	r.put("usr/bin/systemctl", "#!/bin/sh\necho \"$*\" >>/said\nexit 1\n", 0o755)
	for _, script := range []string{"postinst", "prerm", "postrm", "rpm-post", "rpm-preun", "rpm-postun"} {
		r.write(script, readFile(t, script))
	}
	for _, c := range []struct {
		args []string
		said []string
	}{
		{[]string{"postinst", "configure", ""}, []string{"--system daemon-reload"}},
		{[]string{"postinst", "configure", "1.0.0"}, []string{"--system daemon-reload", "--system try-restart leafd.service"}},
		{[]string{"prerm", "upgrade", "1.0.1"}, nil},
		{[]string{"postrm", "upgrade", "1.0.1"}, []string{"--system daemon-reload"}},
		{[]string{"prerm", "remove"}, []string{"--system stop leafd.socket leafd-redis.socket leafd.service"}},
		{[]string{"postrm", "remove"}, []string{"--system daemon-reload"}},
		{[]string{"postrm", "purge"}, []string{"--system daemon-reload"}},
		{[]string{"postinst", "abort-upgrade", "1.0.0"}, nil},
		{[]string{"rpm-post", "1"}, []string{"--system daemon-reload"}},
		{[]string{"rpm-post", "2"}, []string{"--system daemon-reload"}},
		{[]string{"rpm-preun", "1"}, nil},
		{[]string{"rpm-postun", "1"}, []string{"--system daemon-reload", "--system try-restart leafd.service"}},
		{[]string{"rpm-preun", "0"}, []string{"--system disable --now leafd.socket leafd-redis.socket leafd.service"}},
		{[]string{"rpm-postun", "0"}, []string{"--system daemon-reload"}},
	} {
		r.write("said", "")
		asRoot(t, append([]string{"chroot", r.dir, "/bin/sh", "/" + c.args[0]}, c.args[1:]...)...)
		require.Equal(t, strings.Join(append(c.said, ""), "\n"), r.read("said"), "%q", c.args)
	}
}

// Every stamp of a build becomes a version that Debian takes, and that grows
// as the commits do.
func TestVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("needs dpkg")
	}
	var growing []string
	for _, c := range []struct{ version, date, want string }{
		{"dev", "unknown", "0~dev"},
		{"2b2234a", "2026-11-21T10:00:00Z", "0~git20261121100000.2b2234a"},
		{"1234567", "2026-11-21T11:00:00Z", "0~git20261121110000.1234567"},
		{"1234567-dirty", "2026-11-21T11:00:00Z", "0~git20261121110000.1234567+dirty"},
		{"v0.9.0-rc1", "2026-11-22T00:00:00Z", "0.9.0~rc1"},
		{"v0.9.0-rc1-3-gabcdef0", "2026-11-22T00:00:00Z", "0.9.0~rc1+3.gabcdef0"},
		{"v0.9.0-rc.2", "2026-11-22T00:00:00Z", "0.9.0~rc.2"},
		{"v0.9.0", "2026-11-22T00:00:00Z", "0.9.0"},
		{"v0.9.0-dirty", "2026-11-22T00:00:00Z", "0.9.0+dirty"},
		{"v1.0.0", "2026-11-23T00:00:00Z", "1.0.0"},
		{"v1.0.0-9-g1234567", "2026-11-23T00:00:00Z", "1.0.0+9.g1234567"},
		{"v1.0.0-10-gabcdef0-dirty", "2026-11-23T00:00:00Z", "1.0.0+10.gabcdef0+dirty"},
		{"1.0.1", "2026-11-23T00:00:00Z", "1.0.1"},
	} {
		got := strings.TrimSpace(run(t, top+"/scripts/package.sh", "version", c.version, c.date))
		require.Equal(t, c.want, got)
		run(t, "dpkg", "--validate-version", got)
		growing = append(growing, got)
	}
	for i, version := range growing[1:] {
		run(t, "dpkg", "--compare-versions", growing[i], "lt", version)
	}
}
