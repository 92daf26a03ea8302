#!/usr/bin/env bash
# Prints what has to go with a program: the licence and notice files of Go's library and
# of every module that is linked into it, as they lie beside the sources of its packages.
#
#   notices.sh BINARY
#
# runs in the module that BINARY was built from. It fails where something that is linked
# has no such file, and where the sources here are not what BINARY was built from.
# (google/go-licenses takes Go's library for a module without a licence wherever another
# Go is used than the one it was built with: its issues 244 and 324.)
set -euo pipefail

if (($# != 1)); then
  echo "usage: $0 BINARY" >&2
  exit 2
fi
info=$(go version -m "$1")

# info KEY [NAME]: the lines of KEY in what go version -m says; of build, NAME's value.
info() { awk -F'\t' -v key="$1" -v name="${2-}=" '$2 == key && index($3, name) == 1 {print substr($3, length(name) + 1)}' <<<"$info"; }

built=${info%%$'\n'*} built=${built##*: }
if [[ "$built" != "$(go env GOVERSION)" ]]; then
  echo "$0: $1 was built by $built, and this is $(go env GOVERSION)" >&2
  exit 1
fi
for name in GOOS GOARCH CGO_ENABLED; do export "$name=$(info build "$name")"; done

# A line for each package: what it belongs to, where that begins, where the package lies.
packages=$(go list -deps -tags="$(info build -tags)" -f '
  {{- if .Standard}}{{"Go "}}'"$built"'{{"\t"}}{{.Root}}{{"\t"}}{{.Dir}}
  {{- else if not .Module.Main}}{{.Module.Path}} {{.Module.Version}}{{"\t"}}{{.Module.Dir}}{{"\t"}}{{.Dir}}{{end}}' \
  "$(awk -F'\t' '$2 == "path" {print $3}' <<<"$info")" | sort)

linked=$(awk -F'\t' '$2 == "dep" {print $3 " " $4}' <<<"$info" | sort)
if [[ "$linked" != "$(cut -f1 <<<"$packages" | grep -v '^Go ' | sort -u)" ]]; then
  echo "$0: $1 has other modules than the sources here" >&2
  exit 1
fi

# Each directory from a package up to where its module begins, once.
declare -A licences seen
while IFS=$'\t' read -r name root dir; do
  : "${licences[$name]:=}"
  while [[ -z "${seen[$dir]-}" ]]; do
    seen[$dir]=1
    for file in "$dir"/*; do
      base=${file##*/}
      if [[ -f "$file" && "$base" != *.go && "${base,,}" =~ ^(un)?licen[cs]e|^copying|^copyright|^notice|^patents ]]; then
        licences[$name]+=$file$'\n'
      fi
    done
    if [[ "$dir" == "$root" ]]; then break; fi
    dir=${dir%/*}
  done
done <<<"$packages"

failed=0
mapfile -t names < <(printf '%s\n' "${!licences[@]}" | LC_ALL=C sort)
for name in "${names[@]}"; do
  if [[ ! "${licences[$name],,}" =~ /((un)?licen[cs]e|copying)[^/]*$'\n' ]]; then
    echo "$0: no licence is found for $name" >&2
    failed=1
    continue
  fi
  # The Mozilla Public License asks for where the source is to be had.
  source=https://proxy.golang.org/$(sed 's/[A-Z]/!\l&/g; s| \(.*\)|/@v/\1.zip|' <<<"$name")
  if [[ "$name" == Go\ * ]]; then source=https://go.dev/dl/$built.src.tar.gz; fi
  printf '%s\n%s\n%s\n' "${name//?/=}" "$name" "$source"
  while IFS= read -r file; do
    printf -- '-- %s\n\n' "${file##*/}"
    cat "$file"
    printf '\n'
  done <<<"${licences[$name]%$'\n'}"
done
exit "$failed"
