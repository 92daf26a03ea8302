#!/usr/bin/env bash
# Has clients of Redis in other languages get IDs from a leafd of their own: redis-py,
# node-redis, ioredis, Jedis and Lettuce, from their registries, into bin/redisclients;
# then runs their programs of docs/clients through failovers.
#
#   run.sh install | LEAFD
set -euo pipefail

here=$(realpath "$(dirname "$0")")
work=$(realpath -m "$here/../../bin/redisclients")
mkdir -p "$work"

[[ -d "$work/python" ]] || python3 -m venv "$work/python"
"$work/python/bin/pip" install -q -r "$here/requirements.txt"
cp "$here/package.json" "$here/client.mjs" "$work/"
npm --prefix "$work" install --silent --no-audit --no-fund
mvn -q -B -f "$here/pom.xml" "-DbuildDirectory=$work/java" dependency:copy-dependencies -DoutputDirectory="$work/java/lib"
if [[ "$1" == install ]]; then exit; fi

leafd=$(realpath "$1")
data=$(mktemp -d)
read -r http redis < <(python3 -c '
import socket
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in taken))')
"$leafd" serve --listen "127.0.0.1:$http" --listen-redis "127.0.0.1:$redis" --data-dir "$data/leafd" --log-level warn &
daemon=$!
trap 'kill "$daemon"; wait "$daemon" || true; rm -rf "$data"' EXIT
for _ in $(seq 100); do
  if curl -sf "http://127.0.0.1:$http/readyz" >/dev/null; then break; fi
  sleep 0.1
done

echo "== redis-py"
"$work/python/bin/python" "$here/client.py" "$redis"
echo "== node-redis and ioredis"
node "$work/client.mjs" "$redis"
echo "== Jedis and Lettuce"
java -cp "$work/java/lib/*" "$here/Client.java" "$redis"
echo "== the programs of docs/clients"
LEAFDTEST_DRIVERS=$work go test -count=1 -v -run 'TestPrograms/^(redis-py|node-redis|ioredis|Jedis|Lettuce)$' "$here/../clientpages"
