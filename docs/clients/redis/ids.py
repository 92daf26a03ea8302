import random
import sys
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


class Leafd:
    """Each call begins at home, a daemon drawn at random; one that failed is asked last for a second. For any number of threads.

    To be made after a fork, so that each process has its home."""

    def __init__(self, addresses):
        once = {"socket_timeout": 1, "socket_connect_timeout": 1, "retry": Retry(NoBackoff(), 0)}
        self.daemons = [redis.Redis.from_url(f"redis://{a}", **once) for a in random.sample(addresses, len(addresses))]
        self.left_out = [0.0] * len(addresses)  # until then

    def next(self, seconds=5):
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            for i in sorted(range(len(self.daemons)), key=lambda i: self.left_out[i] > now):
                try:
                    return self.daemons[i].execute_command("LEAF.SNOWFLAKE", "order")
                except redis.RedisError as e:
                    error, self.left_out[i] = e, time.monotonic() + 1
            if time.monotonic() > until:
                raise error
            time.sleep(0.05)


if __name__ == "__main__":
    orders = Leafd(sys.argv[2:])
    for _ in range(int(sys.argv[1])):
        print(orders.next())
