#!/usr/bin/env bash
# Prints the path of golangci-lint in the version that .golangci.yml is written
# for. One that is installed already serves; else it is built once, in about two
# minutes, into bin/tools.
set -euo pipefail

version=2.15.0
cd "$(dirname "$0")/.."
cache=$PWD/bin/tools/golangci-lint-$version

gobin=$(go env GOBIN)
for candidate in "$cache/golangci-lint" "$(command -v golangci-lint || true)" "${gobin:-$(go env GOPATH)/bin}/golangci-lint"; do
  if [[ -x "$candidate" && "$("$candidate" version --short 2>/dev/null)" == "$version" ]]; then
    echo "$candidate"
    exit 0
  fi
done

echo "building golangci-lint $version into bin/tools (once, about two minutes)" >&2
GOBIN=$cache GOFLAGS='' go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version" >&2
echo "$cache/golangci-lint"
