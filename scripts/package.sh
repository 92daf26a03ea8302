#!/usr/bin/env bash
# Makes what leafd is passed on as, and prints the paths:
#
#   package.sh BINARY VERSION DATE DIR archive|deb|rpm...
#
# BINARY is leafd as built for the machines that they are for; VERSION and DATE are
# scripts/version.sh's. The same make the same files, byte for byte, anywhere.
#
#   package.sh version VERSION DATE
#
# prints only the version of the packages.
set -euo pipefail

cd "$(dirname "$0")/.."

# package_version VERSION DATE: one that dpkg and rpm take, and order as it came about. A commit
# that no tag precedes comes before every release, in the order of the commits' dates.
package_version() {
  local version=$1 date=$2 dirty=''
  if [[ "$version" == *-dirty ]]; then
    version=${version%-dirty}
    dirty=+dirty
  fi
  if [[ "$version" =~ ^v?([0-9]+(\.[0-9]+)+)(-(.*[^0-9].*|[0-9]+))?$ ]]; then
    local release=${BASH_REMATCH[1]} rest=${BASH_REMATCH[4]-} after=''
    if [[ "$rest" =~ ^((.*)-)?([0-9]+)-g([0-9a-f]+)$ ]]; then # git describe
      rest=${BASH_REMATCH[2]}
      after=+${BASH_REMATCH[3]}.g${BASH_REMATCH[4]}
    fi
    printf '%s%s%s%s\n' "$release" "${rest:+~${rest//[^A-Za-z0-9.+]/.}}" "$after" "$dirty"
    return
  fi
  local digits=${date//[^0-9]/}
  printf '0~%s%s%s\n' "${digits:+git${digits:0:14}.}" "${version//[^A-Za-z0-9.+]/.}" "$dirty"
}

if [[ "${1-}" == version && $# == 3 ]]; then
  package_version "$2" "$3"
  exit 0
fi
if (($# < 5)); then
  echo "usage: $0 BINARY VERSION DATE DIR archive|deb|rpm..., or $0 version VERSION DATE" >&2
  exit 2
fi
binary=$1 version=$2 date=$3 dir=$4
shift 4

umask 022
export LC_ALL=C TZ=UTC0
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

if [[ "$date" =~ ^[0-9]{4}- ]]; then
  SOURCE_DATE_EPOCH=$(date -u -d "$date" +%s)
else
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH-$(date +%s)}
fi
# go_info NAME: what BINARY was built with.
go_info() { go version -m "$binary" | sed -n "s/^\tbuild\t$1=//p"; }
goos=$(go_info GOOS)
GOARCH=$(go_info GOARCH)
VERSION=$(package_version "$version" "$date")
MAINTAINER=${MAINTAINER:-leafd authors <leafd@users.noreply.github.com>}
STAGE=$made/stage # of nfpm.yaml
export SOURCE_DATE_EPOCH GOARCH VERSION MAINTAINER STAGE

GOOS='' GOARCH='' go run ./cmd/leafd/internal/manual "$made/manual"
scripts/notices.sh "$binary" >"$made/NOTICES"

# settle PATH: modes and times as every machine has them.
settle() {
  chmod -R u=rwX,go=rX "$1"
  find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# pack_archive: leafd_VERSION_OS_ARCH.tar.gz, with all in one directory.
pack_archive() {
  local name=leafd_${version#v}_${goos}_$GOARCH
  local top=$made/archive/$name
  mkdir -p "$top"
  cp -r "$made"/manual/* "$made/NOTICES" LICENSE README.md CHANGELOG.md docs deploy/leaf_alloc.sql deploy/leafd.yaml "$top/"
  cp "$binary" "$top/leafd"
  if [[ "$goos" == linux ]]; then cp deploy/leafd.{service,socket} deploy/leafd-redis.socket "$top/"; fi
  settle "$top"
  tar -C "$made/archive" --sort=name --format=ustar --owner=root:0 --group=root:0 -cf - "$name" | gzip -9n >"$dir/$name.tar.gz"
  echo "$dir/$name.tar.gz"
}

# stage fills STAGE, once.
stage() {
  if [[ -e "$STAGE" ]]; then return; fi
  mkdir -p "$STAGE"/{doc,examples}
  cp "$binary" "$STAGE/leafd"
  cp -r "$made"/manual/* "$STAGE/"
  sed 's|^data-dir: .*|data-dir: /var/lib/leafd|' deploy/leafd.yaml >"$STAGE/leafd.yaml"
  grep -qx 'data-dir: /var/lib/leafd' "$STAGE/leafd.yaml"
  cat >"$STAGE/changelog" <<TXT
leafd ($VERSION) unstable; urgency=medium

  * See CHANGELOG.md.gz.

 -- $MAINTAINER  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
TXT
  cp -r README.md CHANGELOG.md docs/*.md docs/operations docs/clients docs/explained docs/evidence "$made/NOTICES" "$STAGE/doc/"
  cp deploy/leaf_alloc.sql deploy/prometheus/alerts.yml deploy/grafana/leafd.json "$STAGE/examples/"
  gzip -9nr "$STAGE"/man? "$STAGE/changelog" "$STAGE/doc"
  settle "$STAGE"
}

# pack_package deb|rpm
pack_package() {
  local nfpm
  nfpm=$(scripts/nfpm.sh)
  stage
  "$nfpm" package --config deploy/package/nfpm.yaml --packager "$1" --target "$dir/" | sed -n 's/^created package: //p'
}

mkdir -p "$dir"
for format; do
  case "$format" in
    archive) pack_archive ;;
    deb | rpm) pack_package "$format" ;;
    *) echo "$0: no format is called $format" >&2; exit 2 ;;
  esac
done
