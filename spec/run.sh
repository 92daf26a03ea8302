#!/usr/bin/env bash
# Checks the model of this directory with spin, exhaustively within their bounds:
#
#   run.sh check [TABLE...]   each run of the tables (runs.tsv), as many at once as there are CPUs
#   run.sh show MODEL NAME    one run, and its counterexample step by step
#
# A line of a table is a run; its columns are separated by single tabs, and "-" is an
# empty one:
#
#   model           NAME.pml in this directory
#   name            of the run, unique for the model
#   flags           macros that the model is compiled with, -DNAME or -DNAME=VALUE
#   expected        "holds": no reachable state breaks an assertion; "repeats": one does,
#                   and so an ID is issued twice; "loses": one of a name with "lost" does,
#                   and so a daemon loses what is its own
#   rule            the rule that is checked, or that these flags take out
#   counterexample  in words, or for a run that holds what it covers
#
# A run holds only if spin has visited all reachable states: one that ends at a bound,
# of depth or of memory, fails. And each event of a model has to happen in one of its
# runs that hold.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
memory_mb=4096

# read_line LINE: into model, name, flags, expected, rule and counterexample.
read_line() {
  IFS=$'\t' read -r model name flags expected rule counterexample extra <<<"$1"
  if [[ -z "$counterexample" || -n "$extra" ]]; then
    echo "not six columns: $1" >&2
    exit 2
  fi
  if [[ "$flags" == - ]]; then flags=; fi
}

# lines TABLE...: without comments and empty lines.
lines() { grep -hv -e '^#' -e '^$' -- "$@"; }

# search DIR: the run that read_line has read, in DIR; spin's report is left in
# DIR/report, and the counterexample in DIR/MODEL.pml.trail. The search is breadth
# first, so a counterexample is a shortest one.
search() {
  local options compile=(-O2 -DPEG)
  read -ra options <<<"$flags"
  if [[ "$expected" == holds ]]; then
    options+=(-o3) # so that pan can count how often each event happens
  else
    compile=(-O1) # a search that is short saves more by a compiler that is
  fi
  mkdir -p "$1"
  cp "$here/$model.pml" "$1"
  (
    cd "$1"
    spin "${options[@]}" -a "$model.pml" && gcc "${compile[@]}" -w -DSAFETY -DBFS -DMEMLIM="$memory_mb" -o pan pan.c && TIMEFORMAT='CPU seconds: %U' && time ./pan
    ./pan -d >events
  ) >"$1/report" 2>&1 || true
}

# events DIR: "MODEL LINE seen" for each event that happened in DIR's run, "MODEL LINE" for
# the others. (Spin's own list of what was never reached leaves out what is in a d_step.)
events() {
  awk -v model="$model" '
    FILENAME ~ /report$/ && $2 == "trans" { seen[$3] = " seen" }
    FILENAME ~ /events$/ && /D_STEP/ && match($0, /\(tr +[0-9]+/) {
      print model, substr($NF, 7) seen[substr($0, RSTART + 3, RLENGTH - 3) + 0]
    }' "$1/report" "$1/events"
}

# judge REPORT: prints "holds", "repeats", "loses", or why it is none of them.
judge() {
  if grep -q 'assertion violated.*lost' "$1"; then
    echo loses
  elif grep -q 'assertion violated.*overflow' "$1"; then
    echo "the model's numbers overflow"
  elif grep -q 'assertion violated' "$1"; then
    echo repeats
  elif ! grep -q ' errors: 0$' "$1" || grep -qiE 'not completed|too small|out of memory|memory limit' "$1"; then
    grep -m1 -E '^pan:|^spin:|[Ee]rror' "$1" || tail -n 1 "$1"
  else
    echo holds
  fi
}

# one WORK LINE: a row on standard output; WORK/failed is left where
# the result isn't the expected one.
one() {
  local dir result states seconds mark=
  read_line "$2"
  dir=$1/$model.$name
  search "$dir"
  result=$(judge "$dir/report")
  states=$(awk '/ states, stored/ {printf "%d", $1}' "$dir/report")
  seconds=$(awk '/^CPU seconds/ {printf "%.1f", $3}' "$dir/report")
  if [[ "$result" != "$expected" ]]; then
    mark="  FAILED: $expected was expected; spec/run.sh show $model $name"
    touch "$1/failed"
  fi
  printf '%-9s %-22s %-8s %10s states %6s s  %s%s\n' "$model" "$name" "$result" "${states:-0}" "${seconds:-0.0}" "$rule" "$mark"
  if [[ "$result" == holds ]]; then events "$dir" >"$1/$model.$name.events"; fi
  rm -rf "$dir"
}

# check WORK TABLE...
check() {
  local work=$1
  shift
  lines "$@" | tr '\n' '\0' | xargs -0 -n 1 -P "$(nproc)" "$here/run.sh" one "$work"
  echo "$(lines "$@" | wc -l) runs in ${SECONDS}s"
  find "$work" -name '*.events' -exec cat {} + >"$work/events"
  sed 's/ seen$//' "$work/events" | sort -u >"$work/known"
  sed -n 's/ seen$//p' "$work/events" | sort -u >"$work/seen"
  if comm -23 "$work/known" "$work/seen" | sed 's/^/FAILED, never happens: the event of model and line /' | grep .; then
    touch "$work/failed"
  fi
  if [[ -e "$work/failed" ]]; then exit 1; fi
}

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

command=${1:-}
if (($# > 0)); then shift; fi
if [[ "$command" == one ]]; then
  one "$@"
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
case "$command" in
  check)
    if (($# == 0)); then set -- "$here/runs.tsv"; fi
    check "$work" "$@"
    ;;
  show)
    if (($# != 2)); then usage; fi
    line=$(lines "$here"/*.tsv | grep -P "^\Q$1\E\t\Q$2\E\t") || { echo "no run $1 $2 in $here/*.tsv" >&2; exit 2; }
    read_line "$line"
    search "$work/show"
    cat "$work/show/report"
    if [[ -e "$work/show/$model.pml.trail" ]]; then
      read -ra options <<<"$flags"
      echo
      (cd "$work/show" && spin "${options[@]}" -t -T -B "$model.pml") | grep -v '^spin: '
    fi
    ;;
  *) usage ;;
esac
