#!/usr/bin/env bash
# Runs prove.py with z3 in a Python of its own, in bin/tools:
#
#   prove.sh install | [results|RULE]
set -euo pipefail

here=$(realpath "$(dirname "$0")")
python=$(realpath -m "$here/../bin/tools/prove")
"$here/../scripts/deps.sh" prove
[[ -x "$python/bin/python" ]] || python3 -m venv "$python"
"$python/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt"
if [[ "${1:-}" == install ]]; then exit; fi
export PYTHONDONTWRITEBYTECODE=1
exec "$python/bin/python" "$here/prove.py" "$@"
