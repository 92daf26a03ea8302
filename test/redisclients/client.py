"""redis-py against leafd, on both protocols: client.py PORT"""

import sys

import redis

seen = set()
for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, client_name="py", health_check_interval=1)
    assert client.ping()
    ids = [client.incr("leaf-segment-test")]
    ids += client.execute_command("LEAF.SEGMENT", "leaf-segment-test", 100)
    pipe = client.pipeline(transaction=False)
    for _ in range(100):
        pipe.incr("leaf-segment-test")
    ids += pipe.execute()
    ids += client.execute_command("LEAF.SNOWFLAKE", "order", 10)
    for first, last in client.execute_command("LEAF.RANGE", "segment", "leaf-segment-test", 1000):
        ids += range(int(first), int(last) + 1)
    assert len(ids) == 1211 and seen.isdisjoint(ids), ids
    seen.update(ids)
    try:
        client.incr("none")
        raise AssertionError("a tag that is none")
    except redis.ResponseError as e:
        assert str(e).startswith("UNKNOWN_KEY"), e
    try:
        client.pipeline().incr("leaf-segment-test").execute()
        raise AssertionError("a transaction")
    except redis.ResponseError as e:
        assert "pipeline(transaction=False)" in str(e), e
    assert client.info()["server_name"] == "leafd"
    client.close()
print(f"redis-py {redis.__version__}: {len(seen)} IDs")
