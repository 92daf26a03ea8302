#!/usr/bin/env bash
# Has clients of Redis in other languages get IDs from a leafd of their own: redis-py,
# node-redis, ioredis, Jedis and Lettuce, from their registries, into bin/redisclients.
#
#   run.sh LEAFD
set -euo pipefail

leafd=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(realpath -m "$here/../../bin/redisclients")
mkdir -p "$work"

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
[[ -d "$work/python" ]] || python3 -m venv "$work/python"
"$work/python/bin/pip" install -q -r "$here/requirements.txt"
"$work/python/bin/python" "$here/client.py" "$redis"

echo "== node-redis and ioredis"
cp "$here/package.json" "$here/client.mjs" "$work/"
(cd "$work" && npm install --silent --no-audit --no-fund && node client.mjs "$redis")

echo "== Jedis and Lettuce"
mvn -q -B -f "$here/pom.xml" "-DbuildDirectory=$work/java" dependency:copy-dependencies -DoutputDirectory="$work/java/lib"
java -cp "$work/java/lib/*" "$here/Client.java" "$redis"
