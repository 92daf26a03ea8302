#!/usr/bin/env bash
# Makes dist/leafd_VERSION_ARCH.deb and prints its path:
#
#   deb.sh BINARY VERSION DATE [DIR]
#
# BINARY is leafd as built for the machine that the package is for (GOARCH), VERSION
# and DATE are scripts/version.sh's, DIR is dist.
#
#   deb.sh version VERSION DATE
#
# prints only the package's version.
set -euo pipefail

cd "$(dirname "$0")/.."

# deb_version VERSION DATE: one that Debian takes, and orders as it came about. A commit
# that no tag precedes comes before every release, in the order of the commits' dates.
deb_version() {
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
  deb_version "$2" "$3"
  exit 0
fi
if (($# != 3 && $# != 4)); then
  echo "usage: $0 BINARY VERSION DATE [DIR], or $0 version VERSION DATE" >&2
  exit 2
fi
binary=$1 version=$2 date=$3 dir=${4:-dist}

nfpm=$(scripts/nfpm.sh)
STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
umask 022

# A build of one commit makes one package.
if [[ "$date" =~ ^[0-9]{4}- ]]; then
  SOURCE_DATE_EPOCH=$(date -u -d "$date" +%s)
else
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH-$(date +%s)}
fi
GOARCH=$(go env GOARCH)
DEB_VERSION=$(deb_version "$version" "$date")
DEB_MAINTAINER=${DEB_MAINTAINER:-leafd authors <leafd@users.noreply.github.com>}
export STAGE SOURCE_DATE_EPOCH GOARCH DEB_VERSION DEB_MAINTAINER

cp "$binary" "$STAGE/leafd"
# What the program tells of itself, asked of one that runs here.
native=$STAGE/leafd
if [[ "$(go env GOOS)/$GOARCH" != "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ]]; then
  native=$STAGE/native
  GOOS='' GOARCH='' CGO_ENABLED=0 go build -o "$native" ./cmd/leafd
fi
mkdir "$STAGE"/{doc,examples}
"$native" man "$STAGE"
"$native" config --sample | sed 's|^data-dir: .*|data-dir: /var/lib/leafd|' >"$STAGE/leafd.yaml"
grep -qx 'data-dir: /var/lib/leafd' "$STAGE/leafd.yaml"

cat >"$STAGE/changelog" <<TXT
leafd ($DEB_VERSION) unstable; urgency=medium

  * See CHANGELOG.md.gz.

 -- $DEB_MAINTAINER  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
TXT
cp README.md CHANGELOG.md docs/*.md "$STAGE/doc/"
cp -r docs/operations docs/evidence "$STAGE/doc/"
scripts/notices.sh "$binary" >"$STAGE/doc/NOTICES"
cp deploy/leaf_alloc.sql "$STAGE/examples/"
for extra in deploy/prometheus/alerts.yml deploy/grafana/leafd.json; do
  if [[ -e "$extra" ]]; then cp "$extra" "$STAGE/examples/"; fi
done
gzip -9nr "$STAGE"/man? "$STAGE/changelog" "$STAGE/doc"
# nfpm takes the times of files as they are.
find "$STAGE" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$dir"
"$nfpm" package --config deploy/package/nfpm.yaml --packager deb --target "$dir/" | sed -n 's/^created package: //p'
