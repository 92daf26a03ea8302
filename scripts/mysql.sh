#!/usr/bin/env bash
# Prints the path of a MySQL server's mysqld, not MariaDB's. One that is installed serves;
# else Debian's package is unpacked once into bin/tools. It comes from sid, for Debian's
# releases have MariaDB alone, and so do its libraries, which it is started with. Nothing
# is installed, and apt's own lists and settings stay as they are.
set -euo pipefail

cd "$(dirname "$0")/.."
dir=$PWD/bin/tools/mysql

for candidate in "$dir/mysqld" "$(command -v mysqld || true)" /usr/sbin/mysqld; do
  if [[ -x "$candidate" ]] && version=$("$candidate" --no-defaults --version 2>/dev/null) && [[ "$version" != *MariaDB* ]]; then
    echo "$candidate"
    exit 0
  fi
done

command -v apt-get >/dev/null || {
  echo "no mysqld of MySQL on the PATH, and no apt to get one: install MySQL 8 or later" >&2
  exit 1
}
echo "unpacking Debian's mysql-server-core into bin/tools (once, 60 MB)" >&2
rm -rf "$dir"
mkdir -p "$dir"/{lists,archives}/partial "$dir/root"
echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main' >"$dir/sources.list"
touch "$dir/status" # as if nothing were installed, so that all libraries come along
cat >"$dir/apt.conf" <<CONF
Dir::State "$dir";
Dir::State::lists "$dir/lists";
Dir::State::status "$dir/status";
Dir::Cache "$dir";
Dir::Cache::archives "$dir/archives";
Dir::Etc::sourcelist "$dir/sources.list";
Dir::Etc::sourceparts "-";
Acquire::Languages "none";
APT::Sandbox::User "";
CONF
export APT_CONFIG=$dir/apt.conf
apt-get -q update >&2
apt-get -q -y --no-install-recommends --download-only install mysql-server-core >&2
for package in "$dir"/archives/*.deb; do dpkg-deb -x "$package" "$dir/root"; done
rm -rf "$dir"/{lists,archives}

root=$dir/root/usr
loader=$(find "$root/lib" -name 'ld-linux*' -print -quit)
cat >"$dir/mysqld.new" <<SH
#!/bin/sh
exec '$loader' --library-path '${loader%/*}' '$root/sbin/mysqld' "\$@" --basedir='$root' --lc-messages-dir='$root/share/mysql' --plugin-dir='$root/lib/mysql/plugin' --secure-file-priv=NULL
SH
chmod +x "$dir/mysqld.new"
mv "$dir/mysqld.new" "$dir/mysqld"
"$dir/mysqld" --no-defaults --version >&2
echo "$dir/mysqld"
