"""IDs of leafd daemons, fetched ahead, so that most calls touch no network.

   client = leafd.Client("http://10.0.0.5:8080", "http://10.0.0.6:8080")
   orders = client.snowflake("order")  # keep it
   order_id = orders.next()  # or: await orders.anext()

1. An ID is handed out once: it is taken, under a lock, from what the process holds.
2. IDs that a process holds belong to it alone: a forked process drops its parent's.
3. No ID of a response is used before all of it was checked: as many IDs as asked for, growing,
   no Age header, and another first ID than recent ones, so that it comes from no cache.
4. A retry is a new request. What the earlier one may still bring is never used.
5. At most max_ahead IDs of a source are held: a crash loses no more.
6. A snowflake ID is handed out at most max_age after the request for it was sent.
7. A failure reaches a caller only where waiting can't help, or once its time is over.
8. A fetch begins at the source's home, a daemon drawn at random in each process. One that fails is
   asked last for a second or its Retry-After. Each address of a name is a daemon.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import logging
import math
import mmap
import operator
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Iterator
from concurrent import futures

__all__ = ["Client", "Error", "Source"]
__version__ = "1.0.0.dev0"

_LEFT_OUT = 1.0  # seconds
_SNOWFLAKE_AHEAD = 1.0  # seconds, since their times grow old
_WINDOW = 10.0  # seconds over which the rate of use is measured, at most
_FIRST = 64  # IDs of the first batch
_LOOKUP_EVERY, _LOOKUP_PATIENCE = 5.0, 0.1  # seconds; what a request waits for it
_Call = futures.Future[list[int]]  # that waits

_process, _pid = object(), 0
_own: bytearray | mmap.mmap = bytearray(1)  # 0 in a process that has been forked since
_wiped = False  # _own tells of forks without Python's hooks, too (uWSGI's); else the PID does
with contextlib.suppress(AttributeError, OSError):  # not on Linux, or on an old one
    _page = mmap.mmap(-1, 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _page.madvise(18)  # MADV_WIPEONFORK
    _own, _wiped = _page, True
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _own.__setitem__(0, 0))


def _this_process() -> object:
    global _process, _pid
    if not _own[0] or not (_wiped or os.getpid() == _pid):
        _process, _own[0], _pid = object(), 1, os.getpid()
    return _process


class Error(Exception):
    """Why there is no ID. The code is a daemon's, or timeout, unreachable, bad_response."""

    def __init__(self, code: str, message: str, address: str = "", status: int = 0, retry: int = 0):
        super().__init__(code, message, address, status, retry)
        self.code, self.message, self.address = code, message, address
        self.status, self.retry_after = status, retry

    def __str__(self) -> str:
        return f"{self.address} {self.code}: {self.message}".lstrip()

    @property
    def final(self) -> bool:
        """Whether asking again later is of no use: the request itself is refused."""
        return 400 <= self.status < 500 and self.status not in (408, 429)


class _Daemon:
    """An address of a URL's name; the name itself until that is looked up."""

    def __init__(self, url: urllib.parse.SplitResult, host: str):
        self.url, self.host, self.left_out = url, host, -math.inf  # asked last until then
        self.name = url.geturl() if host == url.hostname else f"{url.geturl()} ({host})"

    def ask(self, client: Client, path: str, n: int, firsts: deque[int]) -> list[range]:
        """Returns n IDs of a response that begins with none of firsts. It raises Error."""
        url, until = self.url, time.monotonic() + client.request_timeout
        port = url.port or (443 if url.scheme == "https" else 80)
        conn = http.client.HTTPConnection(url.netloc)  # for Host; TLS checks the URL's name, too
        try:
            conn.sock = socket.create_connection((self.host, port), client.request_timeout)
            if url.scheme == "https":
                tls = client.tls or ssl.create_default_context()
                conn.sock = tls.wrap_socket(conn.sock, server_hostname=url.hostname)
            conn.sock.settimeout(max(until - time.monotonic(), 0.001))
            target = f"{url.path.rstrip('/')}{path}?as=ranges&n={n}"
            conn.request("POST", target, headers=client.headers)
            response = conn.getresponse()
            status, body = response.status, response.read(1 << 22)
        except (OSError, http.client.HTTPException, ValueError) as e:
            code = "timeout" if isinstance(e, TimeoutError) else "unreachable"
            raise Error(code, repr(e), self.name) from e
        finally:
            conn.close()
        try:
            reply = json.loads(body)
            if status != 200:
                retry = response.getheader("Retry-After", "")
                seconds = min(int(retry), 30) if retry.isdecimal() else 0
                raise Error(reply["code"], reply["message"], self.name, status, seconds)
            ranges = [range(int(r["first"]), int(r["last"]) + 1) for r in reply["ranges"]]
            ends = [end for r in ranges for end in (r.start, r.stop)]
            if ends[0] < 0 or ends != sorted(ends) or not all(ranges) or sum(map(len, ranges)) != n:
                raise ValueError(f"not the {n} IDs asked for")
            if response.getheader("Age") or ends[0] in firsts:
                raise ValueError("a cached response")
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as e:
            raise Error("bad_response", f"{status} {e!r}: {body[:80]!r}", self.name) from e
        firsts.append(ends[0])
        return ranges


class _Held:
    """What one process holds of a source. lock protects it, but for what its thread alone uses."""

    def __init__(self, source: Source):
        self.process, self.source, self.lock = _this_process(), source, threading.Lock()
        self.ranges = deque[tuple[float, Iterator[int]]]()  # to be handed out until then
        self.count = self.taken = 0  # IDs held; handed out since seen
        self.waiting: list[tuple[int, _Call]] = []
        self.running, self.rest = False, -math.inf  # the thread; not to fetch ahead until then
        self.low, self.window = 0.0, min(source.seconds, _WINDOW)  # so few left have more fetched
        self.rate, self.seen = _FIRST / 2 / source.seconds, time.monotonic()  # of use, IDs a second
        self.home, self.firsts = random.SystemRandom().random(), deque[int](maxlen=1024)
        self.most = self.limit = source.client.max_ahead  # IDs held, and fetched at once
        self.failure = Error("unreachable", "no daemon has answered yet")

    def take(self, n: int, now: float) -> list[int]:
        """Takes n IDs, or none where fewer are held that are young enough."""
        while self.ranges and now > self.ranges[0][0]:
            self.count -= operator.length_hint(self.ranges.popleft()[1])
        if self.count < n:
            return []
        ids = list(itertools.islice(self.ranges[0][1], n))
        while len(ids) < n:
            self.ranges.popleft()
            ids += itertools.islice(self.ranges[0][1], n - len(ids))
        self.count, self.taken = self.count - n, self.taken + n
        return ids

    def wanted(self) -> int:
        """Returns how many IDs to fetch now. 0 ends the thread."""
        with self.lock:
            now, seconds = time.monotonic(), self.source.seconds
            passed = max(now - self.seen, 1e-9)
            self.rate += (self.taken / passed - self.rate) * -math.expm1(-passed / self.window)
            self.seen, self.taken, self.low = now, 0, min(self.rate * seconds, self.most / 2)
            owed = sum(n for n, call in self.waiting if not call.cancelled())
            self.running = bool(owed) or self.count <= self.low
            want = max(math.ceil(2 * self.low) + owed - self.count, 1)
            return min(want, max(self.most - self.count, 1), self.limit) if self.running else 0

    def put(self, until: float, ranges: list[range]) -> None:
        """Serves the calls that wait, in order; one that needs more than is held delays none."""
        with self.lock:
            if self.process is not _this_process():
                return
            self.ranges.extend((until, iter(r)) for r in ranges)
            self.count += sum(map(len, ranges))
            waiting, self.waiting = self.waiting, []
            for n, call in waiting:
                if not call.cancelled() and not (ids := self.take(n, time.monotonic())):
                    self.waiting.append((n, call))
                elif call.set_running_or_notify_cancel():
                    call.set_result(ids)

    def failed(self, e: Error) -> bool:
        """Notes why a fetch failed, and returns whether to try again."""
        with self.lock:
            self.failure = e
            for _, call in self.waiting if e.final else ():
                if call.set_running_or_notify_cancel():
                    call.set_exception(e)
            self.waiting = [(n, call) for n, call in self.waiting if not call.done()]
            self.running = bool(self.waiting)
            self.rest = time.monotonic() + max(e.retry_after, _LEFT_OUT)
            return self.running

    def run(self) -> None:
        while n := self.wanted():
            until = time.monotonic() + self.source.max_age
            try:
                self.put(until, self.fetch(n))
            except Error as e:
                if e.code == "bad_count" and n > 1:
                    self.limit = n // 2  # the daemons' --max-batch, or --max-range, is smaller
                elif not self.failed(e):
                    return
                most = (
                    _LEFT_OUT if len(self.source.client.daemons()) > 1 else 0.1
                )  # others behind it
                time.sleep(
                    max(e.retry_after if e.status == 429 else min(e.retry_after, most), 0.05)
                )

    def fetch(self, n: int) -> list[range]:
        """Asks the daemons for n IDs. It raises the last failure, or a final one."""
        client, now, failed = self.source.client, time.monotonic(), None
        daemons = client.daemons()
        daemons.sort(key=lambda d: (d.left_out > now, hash((self.home, d.name))))
        for daemon in daemons:
            try:
                return daemon.ask(client, self.source.path, n, self.firsts)
            except Error as e:
                if e.code == "bad_count" and n > 1:
                    raise
                logging.getLogger("leafd").warning("%s", e)
                failed = failed if failed and e.final else e
                if not e.final:
                    daemon.left_out = time.monotonic() + max(e.retry_after, _LEFT_OUT)
        raise (failed or self.failure).with_traceback(None)


class Source:
    """The IDs of a key or tag, from Client.snowflake or Client.segment, for threads and asyncio."""

    def __init__(self, client: Client, path: str, seconds: float, max_age: float):
        self.client, self.path, self.seconds, self.max_age = client, path, seconds, max_age
        self.drop()

    def drop(self) -> None:
        """Drops the IDs held: to call in each process that is restored from a snapshot."""
        self._held = _Held(self)

    def ahead(self) -> int:
        """Returns how many IDs this process holds."""
        return self._held.count if self._held.process is _this_process() else 0

    def next(self, timeout: float | None = None) -> int:
        """Returns an ID. It waits for timeout seconds, or the client's, and raises Error."""
        return self.next_n(1, timeout)[0]

    async def anext(self, timeout: float | None = None) -> int:
        return (await self.anext_n(1, timeout))[0]

    def next_n(self, n: int, timeout: float | None = None) -> list[int]:
        """Returns n IDs, at most max_ahead, or raises Error."""
        if isinstance(taken := self._take(n), list):
            return taken
        futures.wait([taken], self.client.timeout if timeout is None else timeout)
        return self._result(taken)

    async def anext_n(self, n: int, timeout: float | None = None) -> list[int]:
        if isinstance(taken := self._take(n), list):
            return taken
        seconds = self.client.timeout if timeout is None else timeout
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(taken), seconds)
        return self._result(taken)

    def _result(self, call: _Call) -> list[int]:
        if call.cancel():
            raise Error("timeout", f"no ID of {self.path} in time") from self._held.failure
        return call.result()

    def _take(self, n: int) -> list[int] | _Call:
        """Takes n IDs, or returns what will have them."""
        if not 1 <= n <= self.client.max_ahead:
            raise ValueError(f"leafd: n is {n}: want 1 to max_ahead")
        while True:
            held = self._held
            if not _own[0] or held.process is not _process or not (_wiped or os.getpid() == _pid):
                self.drop()
                continue
            with held.lock:
                now = time.monotonic()
                taken: list[int] | _Call = held.take(n, now)
                if not taken:
                    taken = _Call()
                    held.waiting.append((n, taken))
                due = held.count <= held.low or now - held.seen > held.window
                if not held.running and (held.waiting or due and now >= held.rest):
                    threading.Thread(target=held.run, name="leafd", daemon=True).start()
                    held.running = True
            if _own[0] and held.process is _process and (_wiped or os.getpid() == _pid):
                # Else a signal handler has forked.
                return taken


class Client:
    """Takes IDs from daemons. All times are in seconds."""

    def __init__(
        self,
        *addresses: str,
        ahead: float = 10.0,  # that the IDs held last at the rate of use; a snowflake's 1 at most
        max_ahead: int = 20_000,  # IDs that a source holds
        max_age: float = 10.0,  # of a snowflake ID
        timeout: float = 5.0,  # of a call
        request_timeout: float = 1.0,  # then the next daemon is asked
        token: str = "",  # for daemons with a tokens-file
        tls: ssl.SSLContext | None = None,  # for https://
    ):
        self.ahead, self.max_ahead, self.max_age = ahead, max_ahead, max_age
        self.timeout, self.request_timeout, self.tls = timeout, request_timeout, tls
        if min(ahead, timeout, request_timeout) <= 0 or max_ahead < 2 or max_age < request_timeout:
            raise ValueError("leafd: want times > 0, max_ahead >= 2, max_age >= request_timeout")
        self.headers = {"Accept": "application/json", "Connection": "close"}
        self.headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self._found: dict[urllib.parse.SplitResult, list[_Daemon]] = {}
        self._looked_up = -math.inf
        for url in map(urllib.parse.urlsplit, addresses or [""]):
            odd = url.query or url.fragment or url.username or url.port == 0
            if url.scheme not in ("http", "https") or not url.hostname or odd:
                raise ValueError(f"leafd: address {url.geturl()!r}: want http://10.0.0.5:8080")
            self._found[url] = [_Daemon(url, url.hostname)]

    def snowflake(self, key: str) -> Source:
        """Returns a source of snowflake IDs for key, which names the caller. Keep it."""
        path = "/api/snowflake/get/" + urllib.parse.quote(key, safe="")
        return Source(self, path, min(self.ahead, _SNOWFLAKE_AHEAD), self.max_age)

    def segment(self, tag: str) -> Source:
        """Returns a source of the IDs of tag. Keep it."""
        path = "/api/segment/get/" + urllib.parse.quote(tag, safe="")
        return Source(self, path, self.ahead, math.inf)

    def daemons(self) -> list[_Daemon]:
        if time.monotonic() - self._looked_up >= _LOOKUP_EVERY:
            self._looked_up = time.monotonic()
            lookup = threading.Thread(target=self._look_up, daemon=True)  # since it may hang
            with contextlib.suppress(RuntimeError):  # the program ends
                lookup.start()
                lookup.join(_LOOKUP_PATIENCE)
        return list(itertools.chain(*self._found.values()))

    def _look_up(self) -> None:  # no lock, which a fork could leave held: two at once do no harm
        for url, before in self._found.items():
            with contextlib.suppress(OSError, ValueError):  # those from before stay
                found = socket.getaddrinfo(url.hostname, None, type=socket.SOCK_STREAM)
                known, hosts = {d.host: d for d in before}, {str(f[4][0]) for f in found}
                self._found[url] = [known.get(h) or _Daemon(url, h) for h in hosts]
