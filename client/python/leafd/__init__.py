"""IDs of leafd daemons, fetched ahead, so that most calls touch no network.

    client = leafd.Client("http://10.0.0.5:8080", "http://10.0.0.6:8080")
    orders = client.snowflake("order")  # keep it
    order_id = orders.next()            # or: await orders.anext()

It keeps:

 1. An ID is handed out once: it is taken, under a lock, from what the process holds.
 2. IDs that a process holds belong to it alone: a forked process drops its parent's.
 3. No ID of a response is used before all of it was checked: as many IDs as were asked for, growing. A response
    with an Age header, or that begins as a recent one did, comes from a cache and is refused.
 4. A retry is a new request. What the earlier one may still bring is never used.
 5. At most max_ahead IDs of a source are held: a crash loses no more.
 6. A snowflake ID is handed out at most max_age after the request for it was sent.
 7. A failure reaches a caller only where waiting can't help, such as an unknown tag, or once its time is over.
 8. Each fetch begins at the source's home, a daemon drawn at random in each process. A daemon without an answer
    is asked last for a second, one that refuses with a 503 or 429 not during its Retry-After, unless it's the
    only one, behind which others may be, and no 429. Each address of a name is a daemon.
"""

from __future__ import annotations

import asyncio
import collections
import http.client
import itertools
import json
import logging
import math
import operator
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from concurrent import futures

from ._names import Daemon, Names

__all__ = ["Client", "Error", "Source"]
__version__ = "1.0.0.dev0"

_LEFT_OUT = 1.0  # seconds
_SNOWFLAKE_AHEAD = 1.0  # seconds, since their times grow old
_WINDOW = 10.0  # seconds over which the rate of use is measured, at most
_FIRST = 64  # IDs of the first batch
_Call = futures.Future[list[int]]  # that waits

_process = (os.getpid(), object())


def _forked() -> None:
    global _process
    _process = (os.getpid(), object())


getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_forked)


def _this_process() -> tuple[int, object]:
    if _process[0] != os.getpid():  # forked without Python's hooks, as uWSGI does
        _forked()
    return _process


class Error(Exception):
    """Why there is no ID. The code is a daemon's, such as unknown_key, or timeout, unreachable, bad_response."""

    def __init__(self, code: str, message: str, address: str = "", status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(code, message, address, status, retry_after)
        self.code, self.message, self.address, self.status, self.retry_after = code, message, address, status, retry_after

    def __str__(self) -> str:
        return f"{self.address} {self.code}: {self.message}".lstrip()

    @property
    def final(self) -> bool:
        """Whether asking again later is of no use: the request itself is refused."""
        return 400 <= self.status < 500 and self.status not in (408, 429)


class _Held:
    """What one process holds of a source; lock protects it, but for what the one thread that fetches has."""

    def __init__(self, source: Source) -> None:
        self.process, self.source, self.lock = _this_process(), source, threading.Lock()
        self.ranges: collections.deque[tuple[float, Iterator[int]]] = collections.deque()  # when they were asked for, and what is left
        self.count = self.taken = 0  # IDs held; handed out since seen
        self.waiting: collections.deque[tuple[int, _Call]] = collections.deque()
        self.running, self.rest, self.low = False, -math.inf, 0.0  # the thread; none until then; so few left have it run
        self.rate, self.seen = _FIRST / 2 / source.seconds, time.monotonic()  # of use, IDs a second
        self.ranks: dict[Daemon, float] = collections.defaultdict(random.SystemRandom().random)  # the first is home
        self.refused: dict[Daemon, float] = {}  # not to be asked until then
        self.firsts: collections.deque[int] = collections.deque(maxlen=1024)  # of the last responses
        self.limit, self.failure = source.client.max_ahead, Error("unreachable", "each daemon is left out")

    def take(self, n: int) -> list[int]:
        """Takes n IDs, or none where fewer are held that are young enough."""
        while self.ranges and time.monotonic() - self.ranges[0][0] > self.source.max_age:
            self.count -= operator.length_hint(self.ranges.popleft()[1])
        if self.count < n:
            return []
        ids = list(itertools.islice(self.ranges[0][1], n))
        while len(ids) < n:
            self.ranges.popleft()
            ids += itertools.islice(self.ranges[0][1], n - len(ids))
        self.count, self.taken = self.count - n, self.taken + n
        return ids

    def serve(self) -> None:
        """Gives the calls that wait what is held, in their order. One that needs more than that keeps no other waiting."""
        for _ in range(len(self.waiting)):
            n, call = self.waiting.popleft()
            if not call.cancelled() and not (ids := self.take(n)):
                self.waiting.append((n, call))
            elif call.set_running_or_notify_cancel():
                call.set_result(ids)

    def wanted(self) -> int:
        """Returns how many IDs to fetch now. 0 ends the thread."""
        with self.lock:
            now, s, most = time.monotonic(), self.source, self.source.client.max_ahead
            passed = max(now - self.seen, 1e-9)
            self.rate += (self.taken / passed - self.rate) * -math.expm1(-passed / s.window)
            self.seen, self.taken, self.low = now, 0, min(self.rate * s.seconds, most / 2)
            owed = sum(n for n, call in self.waiting if not call.cancelled())
            self.running = bool(owed) or self.count <= self.low
            want = max(math.ceil(2 * self.low) + owed - self.count, 1)
            return min(want, max(most - self.count, 1), self.limit) if self.running else 0

    def put(self, at: float, ranges: list[range]) -> None:
        with self.lock:
            if self.process is _this_process():
                self.ranges.extend((at, iter(r)) for r in ranges)
                self.count += sum(map(len, ranges))
                self.serve()

    def failed(self, e: Error) -> bool:
        """Notes why a fetch failed, and returns whether to try again."""
        with self.lock:
            self.failure = e
            for _, call in self.waiting if e.final else ():
                if call.set_running_or_notify_cancel():
                    call.set_exception(e)
            self.waiting = collections.deque(w for w in self.waiting if not w[1].done())
            if not self.waiting:
                self.running, self.rest = False, time.monotonic() + _LEFT_OUT
            return self.running

    def run(self) -> None:
        while n := self.wanted():
            at = time.monotonic()
            try:
                self.put(at, self.fetch(n))
            except Error as e:
                if e.code == "bad_count" and n > 1:
                    self.limit = n // 2  # the daemons' --max-batch, or --max-range, is smaller
                elif not self.failed(e):
                    return
                time.sleep(0.05)

    def fetch(self, n: int) -> list[range]:
        """Asks the daemons for n IDs. It raises the last failure, a final one where no daemon did better."""
        failed, client, now = None, self.source.client, time.monotonic()
        for daemon in (order := sorted(client.names.daemons(), key=lambda d: (client.left_out.get(d, 0) > now, self.ranks[d]))):
            if self.refused.get(daemon, 0) > time.monotonic():
                continue
            try:
                return client._ask(daemon, self.source.path, n, self.firsts)
            except Error as e:
                if e.code == "bad_count" and n > 1:
                    raise
                logging.getLogger("leafd").warning("%s", e)
                failed = failed if failed and e.final else e
                if not e.status:
                    client.left_out[daemon] = time.monotonic() + _LEFT_OUT
                elif not e.final:
                    self.refused[daemon] = time.monotonic() + max(e.retry_after * (len(order) > 1 or e.status == 429), 0.1)
        raise (failed or self.failure).with_traceback(None)


class Source:
    """The IDs of one key or tag, from Client.snowflake or Client.segment. It is safe for threads and for asyncio."""

    def __init__(self, client: Client, path: str, seconds: float, max_age: float) -> None:
        self.client, self.path, self.max_age = client, path, max_age
        self.seconds, self.window = seconds, min(seconds, _WINDOW)
        self.drop()

    def drop(self) -> None:
        """Drops the IDs fetched ahead: to call in each process that is restored from a snapshot."""
        self._held = _Held(self)

    def ahead(self) -> int:
        """Returns how many IDs this process holds."""
        return self._held.count if self._held.process is _this_process() else 0

    def next(self, timeout: float | None = None) -> int:
        """Returns an ID. It waits for timeout seconds, by default the client's, and raises Error."""
        return self.next_n(1, timeout)[0]

    def next_n(self, n: int, timeout: float | None = None) -> list[int]:
        """Returns n IDs, at most max_ahead, or raises Error."""
        ids, call, held = self._take(n)
        try:
            return call.result(self.client.timeout if timeout is None else timeout) if call else ids
        except futures.TimeoutError:
            if call and not call.cancel():
                return call.result()  # served meanwhile
            raise Error("timeout", f"no ID of {self.path} in time") from held.failure

    async def anext(self, timeout: float | None = None) -> int:
        return (await self.anext_n(1, timeout))[0]

    async def anext_n(self, n: int, timeout: float | None = None) -> list[int]:
        ids, call, held = self._take(n)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(call), self.client.timeout if timeout is None else timeout) if call else ids
        except asyncio.TimeoutError:
            raise Error("timeout", f"no ID of {self.path} in time") from held.failure

    def _take(self, n: int) -> tuple[list[int], _Call | None, _Held]:
        """Takes n IDs, or none and returns what will have them."""
        if not 1 <= n <= self.client.max_ahead:
            raise ValueError(f"leafd: n is {n}: want 1 to max_ahead")
        while True:
            if self._held.process is not _this_process():
                self.drop()
            held, call = self._held, None
            with held.lock:
                ids = held.take(n)
                if not ids:
                    held.waiting.append((n, call := _Call()))
                now = time.monotonic()
                if not held.running and (not ids or now >= held.rest and (held.count <= held.low or now - held.seen > self.window)):
                    threading.Thread(target=held.run, name="leafd", daemon=True).start()
                    held.running = True
            if held.process is _process:  # else a signal handler has forked
                return ids, call, held


class Client:
    """Takes IDs from daemons. All times are in seconds.

    ahead: how long the IDs held of a segment last at the rate of use; of snowflake IDs a second at most.
    max_ahead: how many IDs a source holds at most. max_age: of a snowflake ID. timeout: how long a call waits.
    request_timeout: after it the next daemon is asked. token: for daemons with a tokens-file. tls: for https://.
    """

    def __init__(self, *addresses: str, ahead: float = 10.0, max_ahead: int = 20_000, max_age: float = 10.0, timeout: float = 5.0,
                 request_timeout: float = 1.0, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.ahead, self.max_ahead, self.max_age, self.names = ahead, max_ahead, max_age, Names(addresses)
        self.timeout, self.request_timeout, self.tls, self.left_out = timeout, request_timeout, tls, dict[Daemon, float]()
        if not addresses or min(ahead, timeout, request_timeout) <= 0 or max_ahead < 2 or max_age < request_timeout:
            raise ValueError("leafd: want addresses, times above 0, max_ahead from 2, and max_age from request_timeout")
        self.headers = {"Accept": "application/json", "Cache-Control": "no-store", "Connection": "close"}
        self.headers |= {"Authorization": f"Bearer {token}"} if token else {}

    def snowflake(self, key: str) -> Source:
        """Returns a source of snowflake IDs for key, which names the caller. Keep it: it holds the IDs fetched ahead."""
        return Source(self, "/api/snowflake/get/" + urllib.parse.quote(key, safe=""), min(self.ahead, _SNOWFLAKE_AHEAD), self.max_age)

    def segment(self, tag: str) -> Source:
        """Returns a source of the IDs of tag. Keep it: it holds the IDs fetched ahead."""
        return Source(self, "/api/segment/get/" + urllib.parse.quote(tag, safe=""), self.ahead, math.inf)

    def _ask(self, daemon: Daemon, path: str, n: int, firsts: collections.deque[int]) -> list[range]:
        until, url = time.monotonic() + self.request_timeout, urllib.parse.urlsplit(daemon[0])
        address = daemon[0] if daemon[1] == url.hostname else f"{daemon[0]} ({daemon[1]})"
        conn = http.client.HTTPConnection(url.netloc)  # Host and the name that TLS checks are the URL's
        try:
            conn.sock = socket.create_connection((daemon[1], url.port or (443 if url.scheme == "https" else 80)), self.request_timeout)
            if url.scheme == "https":
                conn.sock = (self.tls or ssl.create_default_context()).wrap_socket(conn.sock, server_hostname=url.hostname)
            conn.sock.settimeout(max(until - time.monotonic(), 0.001))
            conn.request("POST", f"{url.path.rstrip('/')}{path}?as=ranges&n={n}", headers=self.headers)
            response = conn.getresponse()
            status, retry, body = response.status, response.getheader("Retry-After", ""), response.read(1 << 22)
        except (OSError, http.client.HTTPException, ValueError) as e:
            raise Error("timeout" if isinstance(e, TimeoutError) else "unreachable", repr(e), address) from e
        finally:
            conn.close()
        try:
            reply = json.loads(body)
            if status != 200:
                raise Error(reply["code"], reply["message"], address, status, min(int(retry), 30) if retry.isdecimal() else 0)
            ranges = [range(int(r["first"]), int(r["last"]) + 1) for r in reply["ranges"]]
            ends = [end for r in ranges for end in (r.start, r.stop)]
            if ends[0] < 0 or ends != sorted(ends) or not all(ranges) or sum(map(len, ranges)) != n:
                raise ValueError(f"not the {n} IDs asked for")
            if response.getheader("Age") or ends[0] in firsts:
                raise ValueError("a cached response: IDs must not be cached")
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as e:
            raise Error("bad_response", f"status {status}, {e!r}: {body[:80]!r}", address) from e
        firsts.append(ends[0])
        return ranges
