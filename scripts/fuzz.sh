#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other: fuzz.sh [TIME [PATTERN]].
# PATTERN is a regular expression for names of targets. What a target fails on is left
# in its package's testdata/fuzz, to be fixed and kept there.
set -euo pipefail

cd "$(dirname "$0")/.."
fuzztime=${1:-10s}
pattern=${2:-.}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=$(go env GOCACHE)/fuzz
module=$(go list -m)

# only_late tells whether a run that failed has found nothing, and only its end came
# while a worker was busy: before Go 1.27 that may be reported as a failure of exactly
# these three lines (golang/go#75804).
only_late() {
  [[ "$(sed -e '/^fuzz: /d' -e 's/ ([0-9.]*s)$//' "$work/output")" == "--- FAIL: $target"$'\n'"    context deadline exceeded"$'\n'"FAIL" ]]
}

# Each package is built once: `go test -fuzz` would link it again for each target. An
# input of new coverage is made smaller for a second at most; by default that takes up
# to a minute, in which nothing else is tried.
found=0
while read -r dir; do
  package=$module/$dir
  built=
  for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go); do
    if [[ ! "$target" =~ $pattern ]]; then continue; fi
    if [[ -z "$built" ]]; then go -C "$dir" test -c -fuzz=. -o "$work/fuzz.test" .; built=yes; fi
    echo "== $package $target ($fuzztime)"
    (cd "$dir" && exec "$work/fuzz.test" -test.run '^$' -test.fuzz "^${target}\$" -test.fuzztime "$fuzztime" \
      -test.fuzzminimizetime 1s -test.fuzzcachedir "$cache/$package" </dev/null 2>&1) | tee "$work/output" || only_late
    runs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$work/output" | tail -1)
    printf '%12s  %s %s\n' "${runs:-0}" "$dir" "$target" >>"$work/summary"
    found=$((found + 1))
  done
done < <(grep -rl --include='*_test.go' --exclude-dir=bench '^func Fuzz' . | sed 's|^\./||' | xargs -n1 dirname | sort -u)

if ((found == 0)); then
  echo "no fuzz target found" >&2
  exit 1
fi
printf '\n%d targets in %ss; how often each was run:\n' "$found" "$SECONDS"
cat "$work/summary"
