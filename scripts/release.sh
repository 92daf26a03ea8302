#!/usr/bin/env bash
# Makes dist/VERSION, what a release consists of, from the commit that is checked out:
# archives for Linux and macOS, packages, an SBOM for each program, the Helm chart, the clients in
# Python and Node, and SHA256SUMS.
#
#   release.sh VERSION
#
# Two runs with the same Go and npm make the same files, in any directory, on any day.
#
#   release.sh VERSION check
#
# makes it twice, each in a clone of its own, the second time with nothing compiled
# before, and compares; then `go install` and a program that imports the client get the
# modules by tags of VERSION.
set -euo pipefail

cd "$(dirname "$0")/.."

fail() { echo "release: $*" >&2; exit 1; }

if [[ ! "${1-}" =~ ^v?((0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.]+)?)$ ]]; then
  fail "VERSION is \"${1-}\": want one as v1.2.3 or v1.2.3-rc.1: make release VERSION=v1.2.3"
fi
version=v${BASH_REMATCH[1]}

git=(git -c safe.directory='*' --no-optional-locks)
commit=$("${git[@]}" rev-parse -q --verify HEAD) || fail "this is no clone: its commit is not known"
changes=$("${git[@]}" status --porcelain)
if [[ -n "$changes" ]]; then
  fail "the work tree has changes, which no commit would tell of:"$'\n'"$changes"
fi
tags=("$version" "client/$version") # of the two modules
for tag in "${tags[@]}"; do
  if tagged=$("${git[@]}" rev-parse -q --verify "refs/tags/$tag^{commit}") && [[ "$tagged" != "$commit" ]]; then
    fail "the tag $tag is of another commit: $tagged, and this is $commit"
  fi
done

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

if [[ "${2-}" == check ]]; then
  for run in first second; do
    "${git[@]}" clone -q --no-local . "$made/$run"
    "${git[@]}" -C "$made/$run" checkout -q --detach "$commit"
    if [[ $run == second ]]; then export GOCACHE=$made/cache; fi
    "$made/$run/scripts/release.sh" "$version"
  done
  diff "$made"/{first,second}/dist/"$version"/SHA256SUMS || fail "two runs made different files"
  echo "release: two runs made the same files"

  for tag in "${tags[@]}"; do "${git[@]}" -C "$made/first" tag -f "$tag" "$commit" >/dev/null; done
  module=github.com/leafd/leafd
  export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.file://$made/first.insteadOf GIT_CONFIG_VALUE_0=https://$module
  # All other modules are those that the runs were built with.
  GOPROXY=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
  export GOPROXY GONOPROXY=$module GOSUMDB=off GOMODCACHE=$made/modules GOFLAGS=-modcacherw GOBIN=$made/bin GOWORK=off CGO_ENABLED=0
  mkdir "$made/program"
  cd "$made/program"
  go install -trimpath "$module/cmd/leafd@$version"
  "$made/bin/leafd" version | grep -w "$version" || fail "go install made another version"
  go mod init example.org/program
  go get "$module/client@$version"
  printf 'package main\n\nimport _ "%s/client"\n\nfunc main() {}\n' "$module" >main.go
  go build -trimpath -o program .
  echo "release: go install and go get take the modules by their tags"
  exit 0
fi

# What a build depends on besides the sources and Go's version.
umask 022
unset GOARCH GOOS GOEXPERIMENT GOFIPS140 GOENV MAINTAINER SOURCE_DATE_EPOCH
export GOENV=off GOFLAGS=-mod=readonly GOWORK=off GOAMD64=v1 GOARM64=v8.0 LC_ALL=C
date=$(scripts/version.sh date)

# build OS ARCH: leafd for it; prints the path.
build() {
  local binary=$made/leafd_$1_$2
  MAKEFLAGS="" GOOS=$1 GOARCH=$2 make -s build BINARY="$binary" VERSION="$version" COMMIT="$commit" DATE="$date" >&2
  echo "$binary"
}

echo "release: $version of $commit, by $(go version)"
out=$made/out
for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
  formats=(archive)
  if [[ $platform == linux/* ]]; then formats+=(deb rpm); fi
  binary=$(build "${platform%/*}" "${platform#*/}")
  scripts/package.sh "$binary" "$version" "$date" "$out" "${formats[@]}" | sed 's|.*/|release: |'
  go run ./scripts/sbom "$binary" "$version" "$date" >"$out/leafd_${version#v}_${platform/\//_}.spdx.json"
done
# The Helm chart, in the form of `helm package`.
cp -R deploy/helm/leafd "$made/leafd"
sed -i -E "s/^(version|appVersion): .*/\\1: ${version#v}/" "$made/leafd/Chart.yaml"
tar --format=ustar --sort=name --mtime="$date" --owner=0 --group=0 --numeric-owner -C "$made" -c leafd | gzip -9n >"$out/leafd-chart-${version#v}.tgz"
scripts/clients.sh "$version" "$date" "$out" | sed 's|^|release: |'
(cd "$out" && sha256sum -- * >"$made/SHA256SUMS" && mv "$made/SHA256SUMS" .)

rm -rf "dist/$version"
mkdir -p dist
mv "$out" "dist/$version"
echo "release: dist/$version/SHA256SUMS"
