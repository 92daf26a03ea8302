#!/usr/bin/env bash
# Prints the path of nfpm, which makes the packages. One of this version that is
# installed already serves; else it is built once, in about twenty seconds, into
# bin/tools.
set -euo pipefail

version=2.43.0
cd "$(dirname "$0")/.."
cache=$PWD/bin/tools/nfpm-$version

# is_it PROGRAM: what `go install` builds tells no version, and has it in its build info.
is_it() {
  [[ -x "$1" ]] && go version -m "$1" 2>/dev/null |
    awk -v want="v$version" '$1 == "mod" && $2 == "github.com/goreleaser/nfpm/v2" && $3 == want {found = 1} END {exit !found}'
}

gobin=$(go env GOBIN)
for candidate in "$cache/nfpm" "$(command -v nfpm || true)" "${gobin:-$(go env GOPATH)/bin}/nfpm"; do
  if is_it "$candidate"; then
    echo "$candidate"
    exit 0
  fi
done

echo "building nfpm $version into bin/tools (once, about twenty seconds)" >&2
GOBIN=$cache GOFLAGS='' GOOS='' GOARCH='' go install "github.com/goreleaser/nfpm/v2/cmd/nfpm@v$version" >&2
echo "$cache/nfpm"
