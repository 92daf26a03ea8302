#!/usr/bin/env bash
# Prints the version, the commit or the date that a build is stamped with. All
# three come from the commit, so that a build of it is the same on any day;
# outside of a clone (a tarball) they are "dev", "unknown" and SOURCE_DATE_EPOCH.
set -euo pipefail

cd "$(dirname "$0")/.."

# A clone that another user made is read too, as a container's often is, and
# none is written to.
git=(git -c safe.directory='*' -c core.fsmonitor=false --no-optional-locks)

# A tarball unpacked inside another project's clone is not that project.
in_clone() {
  [[ -e .git ]] && command -v git >/dev/null && "${git[@]}" rev-parse -q --verify HEAD >/dev/null 2>&1
}

case "${1-}" in
  version)
    if in_clone; then "${git[@]}" describe --tags --always --dirty; else echo dev; fi
    ;;
  commit)
    if in_clone; then "${git[@]}" rev-parse HEAD; else echo unknown; fi
    ;;
  date)
    if in_clone; then
      TZ=UTC0 "${git[@]}" show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ HEAD
    elif [[ -n "${SOURCE_DATE_EPOCH-}" ]]; then
      TZ=UTC0 printf '%(%Y-%m-%dT%H:%M:%SZ)T\n' "$SOURCE_DATE_EPOCH"
    else
      echo unknown
    fi
    ;;
  *)
    echo "usage: $0 version|commit|date" >&2
    exit 2
    ;;
esac
