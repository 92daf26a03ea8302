#!/usr/bin/env bash
# Runs prove.py with z3 in a Python of its own, in bin/tools:
#
#   prove.sh install | [results|RULE]
set -euo pipefail

here=$(realpath "$(dirname "$0")")
python=$(realpath -m "$here/../bin/tools/prove")
"$here/../scripts/deps.sh" prove
# A directory that was moved or copied has a Python that is gone: --clear makes it once more.
"$python/bin/python" -m pip --version >/dev/null 2>&1 || python3 -m venv --clear "$python"
"$python/bin/python" -m pip install -q --disable-pip-version-check -r "$here/requirements.txt"
if [[ "${1:-}" == install ]]; then exit; fi
export PYTHONDONTWRITEBYTECODE=1
exec "$python/bin/python" "$here/prove.py" "$@"
