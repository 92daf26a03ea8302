#!/usr/bin/env bash
# Makes the packages of the clients in Python and Node, and prints their names:
#
#   clients.sh VERSION DATE DIR
#
# VERSION is one as v1.2.3-rc.1, DATE that of scripts/version.sh. The same make the same files, byte
# for byte, with the same npm.
set -euo pipefail

cd "$(dirname "$0")/.."
version=${1#v} dir=$(realpath -m "$3")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

umask 022
export LC_ALL=C TZ=UTC0 PYTHONDONTWRITEBYTECODE=1
SOURCE_DATE_EPOCH=$(date -u -d "$2" +%s)
export SOURCE_DATE_EPOCH

scripts/deps.sh prove # Python with venv
python3 -m venv "$made/venv"
"$made/venv/bin/pip" install -q --disable-pip-version-check flit_core==3.12.0
mkdir -p "$dir"
for client in python node; do
  cp -R "client/$client" LICENSE "$made/"
  mv "$made/LICENSE" "$made/$client/"
done
sed -i "s/^__version__ = .*/__version__ = \"$version\"/" "$made/python/leafd/__init__.py"
sed -i "s/^  \"version\": .*/  \"version\": \"$version\",/" "$made/node/package.json"
(cd "$made/python" && basename "$("$made/venv/bin/python" -c 'import flit_core.buildapi, sys; print(flit_core.buildapi.build_wheel(sys.argv[1]))' "$dir")")
(cd "$made/node" && npm pack --silent --pack-destination "$dir")
