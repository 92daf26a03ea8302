#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other: fuzz.sh [TIME]
set -euo pipefail

cd "$(dirname "$0")/.."
fuzztime=${1:-10s}

# `go test -list` prints a package's names and then "ok  PACKAGE  TIME".
targets=$(go test -list '^Fuzz' ./... | awk '/^Fuzz/ {names[++n] = $1} /^ok/ {for (i = 1; i <= n; i++) print $2, names[i]; n = 0}')
if [[ -z "$targets" ]]; then
  echo "no fuzz target found" >&2
  exit 1
fi
while read -r package target; do
  echo "== $package $target ($fuzztime)"
  go test -run '^$' -fuzz "^${target}\$" -fuzztime "$fuzztime" "$package"
done <<<"$targets"
