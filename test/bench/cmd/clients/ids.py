"""ids.py WAY URL... takes IDs in one way: for each line of its input, a number of calls and the
seconds after each, it makes them and prints how many failed."""

import sys
import time
import urllib.request

import leafd

way, *urls = sys.argv[1:]


# -- single
def single():
    with urllib.request.urlopen(urls[0] + "/api/snowflake/get/order", timeout=1) as response:
        return int(response.read())


# -- list
held = []


def listed():
    if not held:
        with urllib.request.urlopen(urls[0] + "/api/snowflake/get/order?n=1000", timeout=1) as response:
            held.extend(reversed(response.read().split()))
    return int(held.pop())


# -- ranges
orders = leafd.Client(*urls).snowflake("order")


def ranges():
    return orders.next()


# -- end

take = {"single": single, "list": listed, "ranges": ranges}[way]
for line in sys.stdin:
    calls, pause = line.split()
    calls, pause, failed = int(calls), float(pause), 0
    for _ in range(calls):
        try:
            take()
        except Exception:
            failed += 1
        if pause:
            time.sleep(pause)
    print(failed, flush=True)
