#!/usr/bin/env bash
# Installs the programs that tests, the model and benchmarks run and the machine lacks:
#
#   deps.sh test|long|race|spec|prove|bench|clients|java...
#
#   test   MariaDB's and ZooKeeper's servers, the Java runtime of the latter, and
#          libfaketime, which gives it another time;
#          the tests start their own in temporary directories
#   long   what the tests that take minutes need beside that: Chromium, promtool, Redis, Galera,
#          its shell and its load, what reads the packages, and what
#          gives each daemon of a chaos run a network
#   race   a C compiler, which Go's race detector links with
#   spec   spin, which checks the model of spec, and the C compiler that it needs
#   prove  Python with venv, into which spec/prove.sh fetches z3
#   bench  redis-server, to compare with
#   clients  Python, Node and openssl, for the tests of their clients
#   java   Maven and a JDK, which build the Java client; MariaDB, for its tests
#
# It does nothing where they are found. Where there is no apt it says what is
# missing and how to install it. No service is left running or enabled.
set -euo pipefail

export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

packages=()
missing=()
# need PACKAGE PROGRAM...: the Debian package that has all the programs.
need() {
  local package=$1 program absent=0
  shift
  for program; do
    command -v "$program" >/dev/null || { missing+=("$program"); absent=1; }
  done
  if ((absent)); then packages+=("$package"); fi
}
# need_file PACKAGE FILE...: the Debian package that has all the files.
need_file() {
  local package=$1 file absent=0
  shift
  for file; do
    [[ -e "$file" ]] || { missing+=("$file"); absent=1; }
  done
  if ((absent)); then packages+=("$package"); fi
}

for group; do
  case "$group" in
    test)
      # Not the package mariadb-server, which makes a database and a service (130 MB).
      need mariadb-server-core mariadbd mariadb-install-db
      need mariadb-client-core my_print_defaults # for the latter
      need default-jre-headless java
      need systemd systemd-socket-activate # which makes /etc/machine-id, too
      need dpkg dpkg
      need util-linux nsenter
      compgen -G '/usr/lib*/faketime/libfaketimeMT.so.1' >/dev/null || need_file libfaketime "/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketimeMT.so.1"
      # Not the package zookeeper, which brings a desktop (66 MB). Elsewhere ZooKeeper's own release will do: its directory lib.
      if [[ -z "${ZOOKEEPER_LIB:-}" ]]; then
        need_file libzookeeper-java /usr/share/java/zookeeper.jar /usr/share/java/slf4j-simple.jar
      fi
      ;;
    long)
      need_file galera-4 /usr/lib/galera/libgalera_smm.so
      need prometheus promtool
      need redis-server redis-server
      need redis-tools redis-cli redis-benchmark
      need systemd systemd-analyze
      need dpkg dpkg-deb
      need rpm rpm
      need groff-base groff
      need iproute2 ip tc
      need util-linux nsenter
      # Any of its names will do.
      command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || need chromium chromium
      ;;
    race) if ! command -v "${CC:-gcc}" >/dev/null; then need gcc gcc; packages+=(libc6-dev); fi ;;
    spec)
      need spin spin
      if ! command -v gcc >/dev/null; then need gcc gcc; packages+=(libc6-dev); fi
      ;;
    prove) if ! python3 -c 'import ensurepip' 2>/dev/null; then missing+=(python3); packages+=(python3-venv); fi ;;
    bench)
      need util-linux taskset
      need redis-server redis-server
      ;;
    clients)
      need python3 python3
      need nodejs node
      need openssl openssl
      ;;
    java)
      need maven mvn
      need default-jdk-headless javac
      need mariadb-server-core mariadbd mariadb-install-db
      need mariadb-client-core my_print_defaults
      ;;
    *)
      echo "usage: $0 test|long|race|spec|prove|bench|clients|java..." >&2
      exit 2
      ;;
  esac
done
if ((${#packages[@]} == 0)); then exit 0; fi

if ! command -v apt-get >/dev/null; then
  cat >&2 <<TXT
missing: ${missing[*]}
Install and try again:
  Fedora, RHEL    dnf install mariadb-server java-latest-openjdk-headless golang-github-prometheus chromium gcc redis libfaketime
  Alpine          apk add mariadb mariadb-common openjdk17-jre-headless prometheus chromium gcc musl-dev redis libfaketime
  Arch            pacman -S mariadb jre-openjdk-headless prometheus chromium gcc redis libfaketime
  macOS           brew install mariadb openjdk prometheus chromium redis
  ZooKeeper       unpack a release of 3.8 or later from zookeeper.apache.org, and set
                  ZOOKEEPER_LIB to its directory lib
  spin            a package of that name, or github.com/nimble-code/Spin
or \`go test -short ./...\` runs the tests that need no server.
TXT
  exit 1
fi

# as_root COMMAND...: without a question, as nothing may be there to answer it.
as_root() {
  if ((EUID == 0)); then "$@"; else sudo -n -- "$@"; fi
}
if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
  echo "missing: ${missing[*]}; as root: apt-get install --no-install-recommends ${packages[*]}" >&2
  exit 1
fi

# A policy-rc.d that exits with 101 keeps packages from starting their service
# (invoke-rc.d(8)); it stays only while we install.
policy=/usr/sbin/policy-rc.d
made_policy=0
remove_policy() { if ((made_policy)); then as_root rm -f "$policy"; fi; }
trap remove_policy EXIT
if [[ ! -e "$policy" ]]; then
  made_policy=1
  as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
fi

install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
    install --no-install-recommends "${packages[@]}" </dev/null
}
echo "installing ${packages[*]} for: ${missing[*]}"
# The lists are fetched only where they are missing or out of date.
if ! install; then
  as_root apt-get -q -y -o DPkg::Lock::Timeout=300 update </dev/null
  install
fi

# Nor shall the service start with the machine: only the tests asked for it.
for service in prometheus:prometheus redis-server:redis-server; do
  if [[ " ${packages[*]} " == *" ${service%:*} "* ]] && command -v systemctl >/dev/null; then
    as_root systemctl disable "${service#*:}.service"
  fi
done

hash -r
for program in "${missing[@]}"; do
  [[ "$program" == /* && -e "$program" ]] || command -v "$program" >/dev/null || { echo "installed ${packages[*]}, and $program is still missing" >&2; exit 1; }
done
